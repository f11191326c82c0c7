"""What sublayers and steps compute between operators, held against a target."""

from collections.abc import Iterator

from day0.engine.calls import part_key, uses
from day0.spec.model import Model
from day0.spec.ops import PHASES
from day0.spec.reports.map_ops import BetweenRow, MapStatus
from day0.spec.target import Target, Uses


def between(model: Model, dtype: str, target: Target) -> Iterator[BetweenRow]:
    """One row for each kind of sublayer and phase, and one for each phase of a step."""
    places = {(part.kind, part): None for layer in model.layers for _, part in layer.parts()}
    for kind in sorted({kind for kind, _ in places}):
        for phase in PHASES:
            found = [uses(f"part:{kind}", part_key(part, phase, dtype)) for other, part in places if other == kind]
            yield held(kind, phase, [one for one in found if one], target)
    for phase in PHASES:
        step = uses("forward", dtype)
        yield held("step", phase, [step] if step else [], target)


def held(kind: str, phase: object, found: list[Uses], target: Target) -> BetweenRow:
    """A row."""
    asks = Uses.union(found)
    lacking, unknown = asks.lacking(target), asks.unknown(target)
    status: MapStatus = "native" if not lacking else "refused" if target.host_fallback.has == "none" else "host fallback"
    known = f"{target.name} has all of it" if not lacking else f"{target.name} lacks some of it; the host has it"
    evidence = f"not verified: {len(unknown)} of it on {target.name}" if unknown and not lacking else known
    return BetweenRow(kind=kind, phase=phase, status=status, operators=sorted(asks.operators), lacking=lacking, evidence=evidence)  # type: ignore[arg-type]
