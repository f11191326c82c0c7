"""Operators: every implementation that the map chose, on the inputs that the model's layers really give it, against its reference."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from day0.community.bench import Bench, draw
from day0.community.reach import borders, reach
from day0.community.statistics import Tally, dtype_name
from day0.community.wide import widened
from day0.engine.packed import Group
from day0.engine.probe import Call
from day0.engine.release import Release
from day0.spec.activation import Activation
from day0.spec.evidence import Errors, Evidence, OperatorEvidence, Uncompared
from day0.spec.model import Layer
from day0.spec.ops import Phase
from day0.spec.packed import Packed
from day0.spec.progress import Progress
from day0.spec.registry import ops
from day0.spec.reports.map_ops import MapOpsReport

Memo = Callable[[str, Callable[[], Iterable[Evidence]]], list[Evidence]]
TOKENS, SINGLE = 48, 8  # tokens that operators are looked at with; the last few are decoded one by one


def compare_operators(
    bench: Bench, layers: Sequence[int], ids: Sequence[int], progress: Progress, drawn: bool = False,
    memo: Memo = lambda _key, compute: list(compute()),
) -> Iterator[Evidence]:  # fmt: skip
    """Evidence for each call of the chosen layers (and of the ends, when all are chosen), in each type.

    A layer runs on the stream that our float32 run lets out of the layer before it, or on drawn values. Of layers that are alike (equal
    parts, equal formats, equal implementations) the first chosen one speaks for all. `memo` (a name, what measures) may know it already.
    """
    float32 = bench.probes[torch.float32]
    model = float32.release.model
    ids = list(ids)[: max(TOKENS, max(reach(model.layers[index], len(ids)) for index in layers))]
    judges = {dtype: _Judge(dtype, _providers(probe.mapped)) for dtype, probe in bench.probes.items()}
    speakers = _distinct(float32.release, layers, [probe.mapped for probe in bench.probes.values()])
    stream_TD = float32.embed(ids)
    read: dict[int | None, Tensor | None] = {}  # layer → what it chose to read
    last = max(speakers) + 1
    for index in range(last):
        progress("operators", index, last)
        reads_TK = read.get(model.layers[index].index_source)
        if index in speakers:
            stream_TD = draw(index, stream_TD) if drawn else stream_TD
            steps = _chunks(model.layers[index], len(ids))
            told = memo(f"operators {index}", partial(_layer, bench, index, stream_TD, steps, judges, ids, reads_TK))
            judges[torch.float32].seen |= {(one.layer, one.op) for one in told if isinstance(one, OperatorEvidence)}
            yield from told
        if index + 1 < last:
            result = float32.layer(index, stream_TD, None, [len(ids)], ids=ids, reads_TK=reads_TK)
            stream_TD, read[index] = stream_TD if drawn else result.hidden_TD, result.reads_TK
    if len(layers) == len(model.layers):
        for dtype, probe in bench.probes.items():
            probe.embed(ids, judges[dtype])
            probe.head(stream_TD.to(dtype), judges[dtype])
            yield from judges[dtype].evidence()
    yield from _silent(float32.mapped, speakers, judges[torch.float32].seen, len(ids))
    progress("operators", last, last)


def _layer(
    bench: Bench, index: int, stream_TD: Tensor, steps: list[int], judges: dict[torch.dtype, "_Judge"], ids: Sequence[int],
    reads_TK: Tensor | None,
) -> Iterator[Evidence]:  # fmt: skip
    for dtype, probe in bench.probes.items():
        probe.layer(index, stream_TD.to(dtype), None, steps, judges[dtype], ids=ids, reads_TK=reads_TK)
        yield from judges[dtype].evidence()


def _chunks(layer: Layer, tokens: int) -> list[int]:
    """Steps that call what a layer does in both phases: before the first border of its mixer where it has one, and in the end."""
    first = min(borders(layer.mixer), default=0)
    early = [first // 2, 1] if 4 <= first < tokens - SINGLE else []
    single = min(SINGLE, tokens - sum(early) - 1)
    return [*early, tokens - sum(early) - single, *[1] * single]


def _silent(mapped: MapOpsReport, layers: Sequence[int], seen: set[tuple[int | None, str]], tokens: int) -> Iterator[Uncompared]:
    """Operators that the map has in these layers and that a sequence of this length does not call."""
    for layer, op in dict.fromkeys((site.layer, site.op) for site in mapped.sites if site.layer in layers):
        if (layer, op) not in seen:
            why = f"{tokens} tokens do not make the layer call it; --tokens takes a longer sequence"
            yield Uncompared(layer=layer, part=op, rung="operators", what=f"operator {op}", why=why)


def _distinct(release: Release, layers: Sequence[int], maps: Sequence[MapOpsReport]) -> list[int]:
    """The first of each kind of layer."""
    kernels: dict[int | None, list[tuple[str, ...]]] = {index: [] for index in layers}
    for site in (site for mapped in maps for site in mapped.sites if site.layer in kernels):
        kernels[site.layer].append((site.op, site.place, site.label, site.phase, site.provider or "", site.format))
    first: dict[str, int] = {}
    for index in layers:
        first.setdefault(repr((list(release.model.layers[index].parts()), kernels[index])), index)
    return list(first.values())


def _providers(mapped: MapOpsReport) -> dict[tuple[int | None, str, str, str], str]:
    found: dict[tuple[int | None, str, str, str], set[str]] = {}
    for site in mapped.sites:
        found.setdefault((site.layer, site.place, site.phase, site.op), set()).add(site.provider or "none")
    return {key: "+".join(sorted(names)) for key, names in found.items()}


Kind = tuple[int | None, str, Phase, str, str, str, tuple[int, ...]]  # layer, part, phase, operator, provider, sizes, shape of a row


class _Judge:
    """Runs the reference of each observed call in float64; calls of one kind are compared as one tensor."""

    def __init__(self, dtype: torch.dtype, providers: dict[tuple[int | None, str, str, str], str]) -> None:
        self._dtype, self._providers = dtype, providers
        self._formats: dict[Kind, set[str]] = {}
        self._values: dict[Kind, Tally] = {}
        self._nulls: dict[Kind, Errors] = {}  # of the reference in the type of the call
        self._choices: dict[Kind, Tensor] = {}
        self._limits: dict[tuple[int | None, str, str], tuple[float, bool]] = {}  # (layer, place, operator) → clamp, whether it was reached
        self.seen: set[tuple[int | None, str]] = set()  # (layer, operator) of every call

    def __call__(self, call: Call) -> None:
        self.seen.add((call.layer, call.op))
        op = ops().get(call.op)
        arguments = inspect.signature(op.reference).bind(*call.args, **call.kwargs).arguments
        chosen = _chosen(call.result)
        width = torch.float64 if chosen is None else None
        wide = {name: widened(value, width) for name, value in arguments.items()}
        right = op.reference(**wide)
        self._clamp(call, op.reference, wide, right)
        provider = self._providers.get((call.layer, call.place, call.phase, call.op), "unknown")
        formats, sizes = _formats(arguments), _sizes(arguments)
        several = isinstance(call.result, tuple) and chosen is None
        plain: list[Any] = []  # results of the reference in the type of the call
        for place, (mine, expected) in enumerate(zip(call.result, right, strict=True) if several else [(call.result, right)]):
            row = tuple((mine if chosen is None else chosen).shape[1:])
            kind = (call.layer, call.place or _end(call.op), call.phase, call.op, provider, sizes, row)
            if chosen is not None:
                wrong_T = (_sorted(chosen) != _sorted(_chosen(expected))).flatten(1).any(-1)
                self._choices[kind] = torch.cat((self._choices[kind], wrong_T)) if kind in self._choices else wrong_T
            elif mine.numel():
                budget = op.budget.relative(dtype_name(mine.dtype))
                tally = self._values.setdefault(kind, Tally(mine.dtype, budget))
                if kind not in self._nulls:
                    plain = plain or _several(op.reference(**{name: widened(value, None) for name, value in arguments.items()}))
                    self._nulls[kind] = _errors(plain[place], expected, budget)
                tally.add(mine, expected)
            else:
                continue
            self._formats.setdefault(kind, set()).add(formats)

    def _clamp(self, call: Call, reference: Callable[..., Any], wide: dict[str, Any], right: Any) -> None:
        """Note whether a clamp of the activation made a difference to any call so far."""
        name = next((name for name, value in wide.items() if isinstance(value, Activation) and value.limit is not None), None)
        key = (call.layer, call.place, call.op)
        if name is not None and not self._limits.get(key, (0.0, False))[1]:
            without = reference(**(wide | {name: replace(wide[name], limit=None)}))
            self._limits[key] = (wide[name].limit, not torch.equal(without, right))

    def evidence(self) -> Iterator[Evidence]:
        """What was observed since the last time."""
        for (layer, place, op), (limit, reached) in self._limits.items():
            if not reached:
                what = f"the clamp of {op} at {limit:g}"
                why = "no value reaches it on these tokens; --tokens takes more, and the reference's layers see it only where one does"
                yield Uncompared(layer=layer, part=place, rung="operators", what=what, why=why)
        for kind, formats in self._formats.items():
            layer, part, phase, op, provider, sizes, _ = kind
            exact = kind in self._choices
            yield OperatorEvidence(
                layer=layer, part=part, op=op, label="+".join(sorted(formats)), phase=phase, provider=provider,
                dtype=dtype_name(self._dtype), sizes=sizes, exact=exact,
                errors=_wrong(self._choices[kind]) if exact else self._errors(kind),
                result="" if exact else dtype_name(self._values[kind].dtype),
            )  # fmt: skip
        for book in (self._formats, self._values, self._nulls, self._choices, self._limits):
            book.clear()

    def _errors(self, kind: Kind) -> Errors:
        """Of all calls of a kind, with the null of the first of them."""
        null = self._nulls[kind]
        return replace(self._values[kind].errors(), null=null.ratio, null_row=null.row_ratio)


def _several(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _errors(mine: Tensor, right: Tensor, budget: float) -> Errors:
    tally = Tally(mine.dtype, budget)
    tally.add(mine, right)
    return tally.errors()


def _sorted(chosen: Tensor) -> Tensor:
    """Choices have no order."""
    return chosen.sort(-1).values


def _wrong(wrong_T: Tensor) -> Errors:
    """Share of rows whose choices differ."""
    return Errors(ours=float(wrong_T.float().mean()), row=int(wrong_T.int().argmax()), elements=len(wrong_T))


def _chosen(result: Any) -> Any:
    """The whole numbers in a result; None where there are none."""
    results = result if isinstance(result, tuple) else (result,)
    return next((tensor for tensor in results if not tensor.is_floating_point()), None)


def _sizes(arguments: dict[str, Any]) -> str:
    """Axis sizes, tokens left out, from the letters that arguments' names end in."""
    found: dict[str, int] = {}
    for name, value in arguments.items():
        letters = name.rpartition("_")[2]
        if isinstance(value, Tensor | Packed) and letters.isupper() and len(letters) == len(value.shape):
            found.update(zip(letters, value.shape, strict=True))
    return " ".join(f"{letter}={size}" for letter, size in found.items() if letter != "T")


def _formats(arguments: dict[str, Any]) -> str:
    return "+".join(sorted({value.format for value in arguments.values() if isinstance(value, Packed | Group)})) or "plain"


def _end(op: str) -> str:
    return {"embedding": "embed", "rms_norm": "norm", "layer_norm": "norm"}.get(op, "head")
