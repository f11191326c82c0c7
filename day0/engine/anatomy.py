"""A release in figures: weights and bytes by role and by layer. Needs no torch."""

from collections import Counter
from math import prod

from day0.checkpoint.banks import alike
from day0.engine.release import Located, Release
from day0.engine.specs import layer_specs, specs
from day0.spec.model import Layer, PartSpec
from day0.spec.reports.inspect import LayerRow, ParameterRow

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


def bytes_by_role(release: Release) -> dict[str, int]:
    """Role → bytes on disk; a tensor that holds several weights counts for the first."""
    held: Counter[str] = Counter()
    stored, seen = release.checkpoint.stored, set()
    for located in release.tensors.values():
        for piece, times in located.alike:
            if piece.name not in seen:
                seen.add(piece.name)
                held[located.spec.role] += piece.bytes * times
    held["prediction"] = sum(stored[name].bytes for name in release.prediction)
    held["towers"] = sum(stored[name].bytes for names in release.towers.values() for name in names)
    held["unclaimed"] = sum(stored[name].bytes for name in release.unclaimed if name not in seen)
    held["ignored"] = sum(weight.bytes * times for _, weight, times in alike(stored)) - sum(held.values())
    held["unread"] = sum(header.bytes * times for _, header, times in alike(release.checkpoint.headers)) - sum(held.values())
    return {role: size for role, size in held.most_common() if size}


def layers(release: Release) -> list[LayerRow]:
    """One row for each layer of the stack."""
    return [_row(layer, release) for layer in release.model.layers]


def _row(layer: Layer, release: Release) -> LayerRow:
    weights = [spec for _, spec in layer_specs(layer, release.model.hidden)]
    pieces = {piece.name: (piece, times) for located in _located(layer, release) for piece, times in located.alike}
    return LayerRow(
        index=layer.index,
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
