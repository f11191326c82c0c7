"""The state of all sequences at full length fits beside the weights.

Why: an engine that is short of pages evicts and computes again; one that never had them refuses the request it was planned for.
Remedy: fewer sequences (`--batch`), shorter ones (`--context`), smaller steps (`--chunk`), or streamed weights (`--weights streamed`).

Example: state: 61.0 GiB for 8 sequences of 131072 tokens: 12.4 GiB short.
"""

from collections.abc import Iterator
from dataclasses import replace

from day0.engine import search
from day0.engine.demand import Demand, amount, largest
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    card = demand.card()
    if card.free < 0 and not demand.shortage("weights", "workspace", "activations"):
        load = demand.workload
        room = f"at most {amount(max(0, card.state + card.free))} beside the rest"
        found = f"{amount(card.state)} for {load.batch} sequences of {load.context} tokens: {amount(-card.free)} short"
        yield Finding(code=CHECK.code, status="fail", subject="state", expected=room, found=found, hint=hint(demand))


def hint(demand: Demand) -> str:
    """What would work: each way alone."""
    load = demand.workload
    context, batch = demand.max_context(load.batch), demand.max_batch()
    ways = [f"`--context {context}` at batch {load.batch}"] if context else []
    ways += [f"`--batch {batch}` at context {load.context}"] if batch else []
    chunk = largest(lambda chunk: demand.fits(chunk=chunk), load.chunk)
    ways += [f"`--chunk {chunk}`"] if chunk else []
    ways += narrower(demand) + spread(demand)
    ways += ["`--weights streamed`"] if load.weights == "resident" and demand.fits(weights="streamed") else []
    return "what fits: " + ", or ".join(ways) if ways else f"the whole needs at least {search.least_count(demand)} such cards"


def narrower(demand: Demand) -> list[str]:
    """State in 8 bits, for engines that have it."""
    load = demand.workload
    open_to_it = load.engine != "day0" and load.kv_dtype in (None, load.dtype)
    return ["`--kv-dtype fp8`"] if open_to_it and demand.fits(kv_dtype="fp8") else []


def spread(demand: Demand) -> list[str]:
    """Tokens of state that every rank holds spread over the ranks."""
    tp = demand.placement.tp
    return [f"`--cp {tp}`"] if tp > 1 == demand.placement.cp and demand.placed(replace(demand.placement, cp=tp)).card().free >= 0 else []


CHECK = check(__name__, __doc__, run, scope="plan")
