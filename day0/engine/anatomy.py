"""A release in figures: weights and bytes by role and by layer. Needs no torch."""

from collections import Counter
from collections.abc import Mapping
from math import prod

from day0.checkpoint.banks import alike
from day0.checkpoint.folder import Checkpoint
from day0.engine.release import Located, Release
from day0.engine.specs import layer_specs, specs
from day0.engine.structure import kinds
from day0.spec.model import Layer, PartSpec
from day0.spec.reports.inspect import ByteCell, LayerRow, ParameterRow

DEFINITION = (
    "total: every weight of the stack and its ends once, by the family's reading. active: of routed experts the share that is chosen "
    "for a token, everything else whole, the embedding table included. Prediction layers and towers of other modalities are counted apart."
)


def parameters(release: Release) -> ParameterRow:
    """Counts of weights."""
    weights = [spec for _, spec in specs(release.model)]

    def elements(names: list[str]) -> int:
        return sum(prod(release.checkpoint.stored[name].shape) for name in names)

    return ParameterRow(
        total=sum(spec.count for spec in weights),
        active=sum(spec.active for spec in weights),
        prediction=elements(release.prediction),
        towers={tower: elements(names) for tower, names in release.towers.items() if names},
        definition=DEFINITION,
    )


def roles(release: Release) -> dict[str, str]:
    """Weight on disk → what it is for; a tensor that holds several weights of the model counts for the first."""
    found: dict[str, str] = {}
    for located in release.tensors.values():
        role = located.spec.role
        for piece, _ in located.alike:
            found.setdefault(piece.name, role)
    apart = [("prediction", release.prediction), *(("towers", names) for names in release.towers.values()), ("unclaimed", release.unclaimed)]
    for place, names in apart:
        for name in names:
            found.setdefault(name, place)
    return found


def cells(checkpoint: Checkpoint, roles: Mapping[str, str], otherwise: str) -> list[ByteCell]:
    """Bytes by role, format and number type, every tensor once; `otherwise` is the role of weights that have none."""
    held: Counter[tuple[str, str, str]] = Counter()
    for name, weight, times in alike(checkpoint.stored):
        for part in weight.parts.values():
            held[roles.get(name, otherwise), weight.format, part.dtype] += part.bytes * times
    if not checkpoint.all_read:
        for _, header, times in alike(checkpoint.headers):
            held["unread", "unread", header.dtype] += header.bytes * times
        for (_, form, dtype), size in [*held.items()]:
            held["unread", "unread", dtype] -= size if form != "unread" else 0
    return [ByteCell(role=role, format=form, dtype=dtype, bytes=size) for (role, form, dtype), size in held.most_common() if size]


def layers(release: Release) -> list[LayerRow]:
    """One row for each layer of the stack."""
    return [_row(layer, kind, release) for layer, kind in zip(release.model.layers, kinds(release.model), strict=True)]


def _row(layer: Layer, kind: str, release: Release) -> LayerRow:
    weights = [spec for _, spec in layer_specs(layer, release.model.hidden)]
    pieces = {piece.name: (piece, times) for located in _located(layer, release) for piece, times in located.alike}
    return LayerRow(
        index=layer.index,
        kind=kind,
        mixer=_kind(layer.mixer),
        ffn=_kind(layer.ffn),
        residual=_kind(layer.residual),
        parameters=sum(spec.count for spec in weights),
        active=sum(spec.active for spec in weights),
        bytes=sum(piece.bytes * times for piece, times in pieces.values()),
        formats=sorted({piece.format for piece, _ in pieces.values()}),
        experts=getattr(layer.ffn, "experts", None),
        top_k=getattr(layer.ffn, "top_k", None),
    )


def _located(layer: Layer, release: Release) -> list[Located]:
    return list(release.layer(layer.index).values())


def _kind(part: PartSpec | None) -> str | None:
    return None if part is None else part.kind
