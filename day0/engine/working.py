"""What a step holds on one card, by what it is for: rehearsed where this engine runs it, by formulas where another does. Needs no torch."""

from collections.abc import Sequence

from day0.engine import transient
from day0.engine.inventory import Inventory
from day0.engine.rehearsal import Load, ladder
from day0.engine.shadow.heap import NotRehearsed
from day0.spec import dtype as number
from day0.spec.model import Layer
from day0.spec.placement import Placement
from day0.spec.record import record
from day0.spec.reports.plan_memory import WorkloadRow
from day0.spec.rules import Band, Rules

DOUBT = Band(p50=3.0, p95=15.0, source="releases whose steps were rehearsed held 0.4 to 14 times the formula's bytes")


@record
class Working:
    """The largest live set of any step."""

    parts: dict[str, int]  #: what for → bytes; together they are the activations
    rehearsed: bool = False  #: whether the engine's own code was followed
    unknown: str = ""  #: why it could not be; "" where it was, and where nothing of it runs
    doubt: Band | None = None  #: times the activations that are kept free because they were not rehearsed


def working(inventory: Inventory, load: WorkloadRow, place: Placement, rules: Rules, *, runs: bool) -> Working:
    """That of one card of a placement; `runs`: by the engine's own code."""
    sequences = -(-load.batch // place.dp)
    tokens = min(load.chunk, sequences * load.context) + sequences
    unknown, parts = "", None
    if runs:
        try:
            steps = Load(dtype=load.dtype, page_size=load.page_size, streamed=load.weights == "streamed")
            parts = {"step": ladder(inventory.share(place), steps).peak(load.context, sequences, load.chunk)}
        except NotRehearsed as error:
            unknown = str(error)
    if parts is None:
        layers: Sequence[Layer] = [layer for layer, _ in inventory.layers]
        parts = transient.activations(
            inventory.release.model, load.dtype, tokens=tokens, outputs=sequences, context=load.context, place=place, rules=rules, layers=layers
        )
    held = parts | images(inventory, load, tokens, sum(parts.values()))
    return Working(parts=held, rehearsed=runs and not unknown, unknown=unknown, doubt=DOUBT if unknown else None)


def images(inventory: Inventory, load: WorkloadRow, tokens: int, step: int) -> dict[str, int]:
    """What images take besides a step of `step` bytes and as many tokens."""
    encoder = inventory.release.model.encoder if load.sees else None
    if encoder is not None:
        inserted = number.size(load.dtype, tokens * encoder.out * (1 + len(encoder.taps)))
        beyond = max(0, transient.encoding(encoder, load.dtype, load.image_patches) - step - inserted)
        return {"inserted images": inserted, "encoder beyond a step": beyond}
    if load.vision:
        return transient.images(inventory.tower_widths, inventory.release.model.hidden, load.dtype, load.images, load.image_tokens)
    return {}
