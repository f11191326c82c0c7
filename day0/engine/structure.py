"""What a model is made of: kinds of layers, tables, state, and what goes between layers. Needs no torch."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import prod
from typing import Any, Literal

from day0.engine.footprint import layer_state, state_bytes
from day0.engine.specs import specs
from day0.parts.moe_ffn import MoeFfn, Router
from day0.spec.model import Layer, Model, PartSpec
from day0.spec.reports.inspect import ExpertLayoutRow, ExpertsRow, KindRow, Scalar, StateRow, StructureRow, TableRow
from day0.spec.state import StateSpec

PLACES = ("mixer", "ffn", "residual", "embedding")
TABLES = ("embed", "head", "table")  # roles of what has a row for each token or n-gram
SCORES = {"softmax": "softmax over all", "sigmoid": "sigmoid", "sqrt_softplus": "root of softplus"}


def describe(
    model: Model,
    sources: Mapping[str, Mapping[str, list[str]]],
    *,
    layouts: list[ExpertLayoutRow],
    prediction_stored: bool,
    open: Sequence[str] = (),
) -> StructureRow:
    """The structure of a model; `sources`: kind of layer → figure → what it follows from."""
    names = kinds(model)
    counts = Counter(names)
    first: dict[str, Layer] = {}
    for name, layer in zip(names, model.layers, strict=True):
        first.setdefault(name, layer)
    token, sequence = state_bytes(model, model.dtype, chunk=1, context=model.context)
    return StructureRow(
        kinds=[kind(name, first[name], counts[name], model.dtype, sources.get(name, {})) for name in counts],
        tables=[*tables(model)],
        index_sharing=_edges((layer.index_source, layer.index) for layer in model.layers),
        kv_sharing=_edges((layer.kv_source, layer.index) for layer in model.layers),
        residual_blocks=[layer.index for layer in model.layers if getattr(layer.residual, "place", "") in ("first", "start")],
        expert_layouts=layouts,
        prediction_stored=prediction_stored,
        token_bytes=token,
        sequence_bytes=sequence,
        open=[*open],
    )


def kinds(model: Model) -> list[str]:
    """The name of each layer's kind: those of its mixer and network, numbered where layers of one name differ."""
    seen: dict[str, list[Any]] = {}
    names = []
    for layer in model.layers:
        stem = " + ".join(part.kind for part in (layer.mixer, layer.ffn) if part is not None) or "nothing"
        what = (layer.mixer, layer.ffn, layer.residual, layer.embedding)
        alike = seen.setdefault(stem, [])
        if what not in alike:
            alike.append(what)
        place = alike.index(what)
        names.append(stem if place == 0 else f"{stem} {place + 1}")
    return names


def kind(name: str, layer: Layer, count: int, dtype: str, sources: Mapping[str, list[str]]) -> KindRow:
    """What is common to `count` layers like `layer`."""
    return KindRow(
        name=name,
        count=count,
        **{place: figures(getattr(layer, place)) for place in PLACES},
        experts=experts(layer.ffn) if isinstance(layer.ffn, MoeFfn) else None,
        state=[growth(spec) for spec in layer_state(layer, dtype)],
        sources=dict(sources),
    )


def figures(part: PartSpec | None) -> dict[str, Scalar]:
    """The fields of a part, dotted where they are inside another; what is absent is left out."""
    return {} if part is None else {"kind": part.kind, **dict(_flat(part, ""))}


def _flat(record: Any, prefix: str) -> Iterator[tuple[str, Scalar]]:
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from _flat(value, f"{prefix}{field.name}.")
        elif isinstance(value, str | int | float):
            yield prefix + field.name, value


def experts(ffn: MoeFfn) -> ExpertsRow:
    """Counts and rule."""
    return ExpertsRow(
        routed=ffn.experts, top_k=ffn.top_k, width=ffn.width, shared=round(ffn.shared_width / ffn.width, 3) if ffn.width else 0.0,
        zero=ffn.identities, latent=ffn.latent, router=rule(ffn.router),
    )  # fmt: skip


def rule(router: Router) -> str:
    """How experts are chosen and weighed, in words."""
    words = [SCORES[router.score]]
    if router.choice_first:
        words = [f"the best logits, then {router.score} among them"]
    if router.table:
        words.append("chosen by a table of token ids")
    if router.bias:
        words.append("a correction added for the choice alone")
    if router.groups > 1:
        words.append(f"from {router.top_groups} of {router.groups} groups")
    if router.renormalise:
        words.append("divided by their sum")
    if router.scale != 1:
        words.append(f"times {router.scale:g}")
    return ", ".join(words)


def growth(spec: StateSpec) -> StateRow:
    """The law of one piece of state."""
    law: Literal["token", "window", "sequence"] = "token" if spec.grows else "sequence" if spec.window is None else "window"
    return StateRow(name=spec.name, law=law, bytes=spec.entry_bytes, every=spec.every, window=spec.window)


def tables(model: Model) -> Iterator[TableRow]:
    """Embedding table, head, and tables within layers; of integers none."""
    for name, spec in specs(model):
        if spec.role in TABLES and spec.precision != "integer":
            width = spec.shape[-1]
            yield TableRow(name=name, rows=prod(spec.shape[:-1]), width=width, parameters=spec.count)
    if model.tied:
        yield TableRow(name="head", rows=model.vocab, width=model.hidden, parameters=0)


def _edges(pairs: Iterable[tuple[int | None, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for source, consumer in pairs:
        if source is not None:
            found.setdefault(source, []).append(consumer)
    return found
