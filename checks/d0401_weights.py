"""The weights fit the memory of a card.

Why: an engine that finds out while it loads has read for minutes, and dies in the middle of a tensor.
Remedy: stream the weights layer by layer (`--weights streamed`), compute in a narrower type (`--dtype`), or take a card with more memory.

Example: weights: 642.1 GiB: 501.1 GiB short, expected at most 141.0 GiB.
"""

from collections.abc import Iterator

from day0.engine import search
from day0.engine.demand import Demand, amount
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    short = demand.shortage("weights", "workspace")
    if short:
        card = demand.card()
        held = f"{amount(card.weights)} held at rest, {amount(card.workspace)} to decode into"
        room, found = f"at most {amount(demand.room)}", f"{held}: {amount(short)} short"
        yield Finding(code=CHECK.code, status="fail", subject="weights", expected=room, found=found, hint=hint(demand))


def hint(demand: Demand) -> str:
    """What would work."""
    least = f"the whole needs at least {search.least_count(demand)} such cards"
    if demand.workload.weights == "resident" and not demand.under(weights="streamed").shortage("weights", "workspace"):
        return f"`--weights streamed` holds {amount(demand.under(weights='streamed').card().weights)} at a time; {least}"
    return least


CHECK = check(__name__, __doc__, run, scope="plan")
