"""Layers: each on the reference's hidden states, with the reference's choice of experts, part by part."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.compare_references import compare_references
from day0.community.null import Reordered
from day0.community.parts import keys
from day0.community.reads import ascending, differing, read
from day0.community.reference import LayerRun, Reference
from day0.community.selection import Selection, rule, same
from day0.community.statistics import compare, dtype_name
from day0.engine.probe import LayerResult, Probe
from day0.spec.evidence import (
    Evidence,
    LayerEvidence,
    PositionsEvidence,
    ReadsEvidence,
    ReusedEvidence,
    RotaryEvidence,
    SelectionEvidence,
    StateEvidence,
    Uncompared,
)
from day0.spec.ops import Phase
from day0.spec.rope import Rope

Table = Callable[[Rope, Tensor], tuple[Tensor, Tensor]]  # (rope, positions [T]) → cosines and sines [T, R]
Runs = tuple[LayerRun, LayerRun | None, LayerRun | None]  # of the reference: in float32, in our type, and there after a harmless change
SINGLE = 8  # tokens that the decode run feeds one by one


def compare_layer(
    bench: Bench, place: int, stream_TD: Tensor, ids: Sequence[int], handed: Tensor | None = None
) -> tuple[list[Evidence], LayerRun]:
    """Evidence for one layer of the reference fed with `stream_TD` (float32), and what the reference made of it.

    Ours may be several for one of the reference's: they run one after the other, and the stream is compared after the last.
    """
    evidence: list[Evidence] = []
    with bench.truth.loaded(place):
        truths = {dtype: bench.truth.layer(place, stream_TD.to(dtype), ids=ids, handed=handed) for dtype in bench.probes}
    for dtype, probe in bench.probes.items():
        truth, entering_TD = truths[dtype], stream_TD.to(dtype)
        peer = null = None
        if dtype != torch.float32:
            with bench.own.loaded(place):
                peer = bench.own.layer(place, entering_TD, ids=ids, handed=handed, **repeated(truth))
                with Reordered():
                    null = bench.own.layer(place, entering_TD, ids=ids, handed=handed, **repeated(truth))
        choices = Choices.of(bench, place, truth, handed)
        kept: dict[Phase, dict[int, LayerResult]] = {}
        entered = probe.entering(bench.ours(place)[0], entering_TD)
        for phase, chunks in runs(len(entering_TD)).items():
            ours = kept[phase] = chain(probe, bench.ours(place), entered, choices, chunks, ids)
            evidence += _parts(bench, place, phase, dtype, ours, (truth, peer, null))
            for index, result in ours.items():
                if truth.selection and result.scores_TE is not None and truth.router is not None:
                    evidence.append(_selection(index, phase, dtype, result, truth, peer))
            if phase == "prefill":
                evidence += _reads(dtype, ours, choices, truth)
                evidence += _reused(bench, dtype, ours, choices, handed)
        if dtype == torch.float32:
            evidence += received(kept)
            own = chain(bench.definition, bench.ours(place), entered, choices, [len(entered)], ids)
            evidence += compare_references(truth, choices.reads_TK, own, kept["prefill"], probe.leaving)
    return evidence, truths[torch.float32]


@dataclass(frozen=True)
class Choices:
    """What the reference chose, to be forced on ours."""

    experts_TK: Tensor | None  #: experts
    reads_TK: Tensor | None  #: what attention reads

    @classmethod
    def of(cls, bench: Bench, place: int, truth: LayerRun, handed: Tensor | None) -> Self:
        """Of one layer; one that reuses a choice reads what it was handed."""
        reuses = any(bench.release.model.layers[index].index_source is not None for index in bench.ours(place))
        raw = truth.reads if truth.reads is not None else handed if reuses else None
        return cls(truth.selection.experts_TK if truth.selection else None, read(raw))


def repeated(truth: LayerRun) -> dict[str, Any]:
    """The choices of one run, as arguments for another one of the reference."""
    return {"experts_TK": truth.selection.experts_TK if truth.selection else None, "reads": truth.reads}


def chain(
    probe: Probe, layers: Iterable[int], stream: Tensor, choices: Choices, chunks: list[int], ids: Sequence[int]
) -> dict[int, LayerResult]:
    """Our layers, one after the other."""
    results = {}
    for index in layers:
        results[index] = probe.layer(index, stream, choices.experts_TK, chunks, ids=ids, reads_TK=choices.reads_TK)
        stream = results[index].hidden_TD
    return results


def runs(tokens: int) -> dict[Phase, list[int]]:
    """How the tokens are fed: at once; and in two chunks, then one by one."""
    single = min(SINGLE, tokens // 2)
    half = (tokens - single) // 2
    chunks = [size for size in (half, tokens - single - half) if size]
    return {"prefill": [tokens], "decode": chunks + [1] * single}


def _parts(
    bench: Bench, place: int, phase: Phase, dtype: torch.dtype, ours: dict[int, LayerResult], right: Runs
) -> Iterator[Evidence]:  # fmt: skip
    """Evidence for what each part adds to the stream, and for the stream."""
    truth, peer, null = right
    for half, (index, result) in enumerate(ours.items()):
        for part, mine in result.parts.items():
            key = next((key for key in keys(part, half, len(result.parts)) if key in truth.parts), None)
            if key is None or truth.parts[key].shape != mine.shape:
                if phase == "prefill" and dtype == torch.float32:
                    why = "the reference's layer has no module whose result is this part alone; the stream after the layer is compared"
                    yield Uncompared(layer=index, part=part, rung="layers", what=f"what the {part} adds", why=why)
                continue
            errors = compare(mine, truth.parts[key], peer.parts[key] if peer else None, dtype, null.parts[key] if null else None)
            yield LayerEvidence(layer=index, part=part, phase=phase, dtype=dtype_name(dtype), tokens=len(mine), errors=errors)
    last = max(ours)
    stream = bench.probes[dtype].leaving(last, ours[last].hidden_TD, truth.hidden_TD)
    errors = compare(stream, truth.hidden_TD, peer.hidden_TD if peer else None, dtype, null.hidden_TD if null else None)
    yield LayerEvidence(layer=last, part="residual", phase=phase, dtype=dtype_name(dtype), tokens=len(stream), errors=errors)


def _reads(dtype: torch.dtype, ours: dict[int, LayerResult], choices: Choices, truth: LayerRun) -> Iterator[Evidence]:
    """What ours chose to read next to what the reference did; nothing where either reads all there is."""
    for index, result in ours.items():
        if truth.reads is not None and choices.reads_TK is not None and result.reads_TK is not None:
            lacking, chosen, affected = differing(ascending(result.reads_TK), choices.reads_TK)
            yield ReadsEvidence(
                layer=index, part="reads", dtype=dtype_name(dtype), tokens=len(result.reads_TK), chosen=chosen, lacking=lacking,
                affected=affected,
            )  # fmt: skip


def _reused(
    bench: Bench, dtype: torch.dtype, ours: dict[int, LayerResult], choices: Choices, handed: Tensor | None
) -> Iterator[Evidence]:
    """What layers take over from the layer they name, next to what the reference hands on; nothing where that layer was not run."""
    for index, result in ours.items():
        source = bench.release.model.layers[index].index_source
        if source is not None and handed is not None and result.reused_TK is not None and choices.reads_TK is not None:
            lacking, chosen, _ = differing(ascending(result.reused_TK), choices.reads_TK)
            yield ReusedEvidence(layer=index, part="reads", dtype=dtype_name(dtype), source=source, chosen=chosen, lacking=lacking)


def received(kept: dict[Phase, dict[int, LayerResult]]) -> Iterator[Evidence]:
    """What a layer is given and leaves beside the stream: positions of its tokens, and state, as one step and as many steps have it."""
    for index, whole in kept["prefill"].items():
        stepwise = kept["decode"][index]
        assert stepwise.positions_T is not None
        wrong_T = stepwise.positions_T != torch.arange(len(stepwise.positions_T), device=stepwise.positions_T.device)
        first = int(wrong_T.int().argmax()) if wrong_T.any() else -1
        yield PositionsEvidence(
            layer=index, part="positions", tokens=len(wrong_T), wrong=int(wrong_T.sum()), first=first,
            found=int(stepwise.positions_T[first]),
        )  # fmt: skip
        for name, right in whole.state.items():
            rows = min(len(right), len(stepwise.state[name]))
            if rows:
                errors = compare(stepwise.state[name][-rows:], right[-rows:], None, torch.float32)
                yield StateEvidence(layer=index, part="state", name=name, tokens=len(wrong_T), errors=errors)


def _selection(
    index: int, phase: Phase, dtype: torch.dtype, ours: LayerResult, truth: LayerRun, peer: LayerRun | None
) -> SelectionEvidence:
    """Our router's choice against the reference's rule on our own scores; what differs from the reference's choice is only counted."""
    assert truth.selection is not None and truth.router is not None
    assert ours.scores_TE is not None and ours.experts_TK is not None and ours.weights_TK is not None
    by_rule = rule(truth.router, ours.scores_TE.float())
    broken_T = ~same(ours.experts_TK, by_rule)
    forced = rule(truth.router, ours.scores_TE.float(), ours.experts_TK)
    weights = (ours.weights_TK - forced.weights_TK).abs().max() / forced.weights_TK.abs().max()
    flipped_T = ~same(ours.experts_TK, truth.selection)
    near_T = _near(by_rule, truth.selection)
    peer_TE = peer.selection.logits_TE if peer and peer.selection else None
    scores = compare(ours.scores_TE, truth.selection.logits_TE, peer_TE, dtype)
    return SelectionEvidence(
        layer=index, part="router", phase=phase, dtype=dtype_name(dtype), tokens=len(broken_T), wrong=int(broken_T.sum()),
        first=int(broken_T.int().argmax()) if broken_T.any() else -1, weights=float(weights), scores=scores,
        flips=int(flipped_T.sum()), explained=int((flipped_T & near_T).sum()),
    )  # fmt: skip


def _near(ours: Selection, reference: Selection) -> Tensor:
    """Whether the gap between the last expert chosen and the first left out is within twice the difference of the ranked values."""
    k = reference.experts_TK.shape[-1]
    ordered_TE = reference.ranked_TE.float().sort(-1, descending=True).values
    gap_T = ordered_TE[:, k - 1] - ordered_TE[:, k] if ordered_TE.shape[1] > k else torch.full_like(ordered_TE[:, 0], torch.inf)
    apart_TE = (ours.ranked_TE.float() - reference.ranked_TE.float()).abs()
    return gap_T.nan_to_num(nan=torch.inf) <= 2 * apart_TE.nan_to_num(nan=0.0, posinf=0.0).amax(-1)


def compare_rotary(truth: Reference, place: int, layer: int, rope: Rope, table: Table, context: int) -> Evidence:
    """Our cosines and sines against the class's own, from position 0 to the end of the context."""
    positions_T = torch.unique(torch.cat([torch.arange(min(context, 64)), torch.linspace(0, context - 1, 256).long()]))
    theirs = truth.rotary(place, positions_T)
    half = rope.dim // 2  # tables of half the width and tables that repeat it both occur
    if theirs is None or theirs[0].shape[-1] < half:
        why = "the reference has no table of cosines and sines for this layer; its attention is compared at the prompt's positions only"
        return Uncompared(layer=layer, part="rotary", rung="layers", what="the rotation at positions beyond the prompt", why=why)
    pairs = zip(table(rope, positions_T), theirs, strict=True)
    apart_T = torch.stack([(ours[:, :half] - right[:, :half].float()).abs().amax(-1).cpu() for ours, right in pairs]).amax(0)
    worst = int((apart_T / (1 + positions_T)).argmax())  # an angle in float32 is off in proportion to the position
    return RotaryEvidence(layer=layer, part="rotary", tokens=context, deviation=float(apart_T[worst]), position=int(positions_T[worst]))
