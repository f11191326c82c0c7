"""What one step computes fits beside the weights.

Why: a prompt that is read in one long step needs room for every token of it at once, on top of all that stays.
Remedy: read prompts in smaller pieces (`--chunk`), run fewer sequences (`--batch`), or stream the weights (`--weights streamed`).

Example: activations: 9.2 GiB for a step of 8192 tokens: 1.1 GiB short.
"""

from collections.abc import Iterator

from day0.engine import search
from day0.engine.demand import Demand, amount, largest
from day0.spec.check import check
from day0.spec.finding import Finding

PARTS = ("weights", "workspace", "activations")


def run(demand: Demand) -> Iterator[Finding]:
    short = demand.shortage(*PARTS)
    if short and not demand.shortage("weights", "workspace"):
        room = f"at most {amount(max(0, demand.activations - short))} beside the weights"
        found = f"{amount(demand.activations)} for a step of {demand.step_tokens} tokens: {amount(short)} short"
        yield Finding(code=CHECK.code, status="fail", subject="activations", expected=room, found=found, hint=hint(demand))


def hint(demand: Demand) -> str:
    """What would work: smaller steps, else fewer sequences, else smaller steps as far as they go, else more cards."""
    chunk = largest(lambda chunk: demand.fits(chunk=chunk), demand.workload.chunk)
    if chunk:
        return f"`--chunk {chunk}` fits"
    batch = demand.max_batch()
    if batch:
        return f"`--batch {batch}` fits"
    chunk = largest(lambda chunk: not demand.under(chunk=chunk).shortage(*PARTS), demand.workload.chunk)
    step = f"a step of `--chunk {chunk}` has room; " if chunk else ""
    return f"{step}the whole needs at least {search.least_count(demand)} such cards"


CHECK = check(__name__, __doc__, run, scope="plan")
