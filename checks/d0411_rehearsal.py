"""What a step holds was followed through the engine's own code, allocation by allocation.

Why: a formula for it can be far too small, and a plan that rests on one may fit on paper alone.
Remedy: teach `day0/engine/shadow` the function that is named, or keep the margin, which is wide where this is found.

Example: steps: not rehearsed: 'Tensor' object has no attribute 'topk', in kernels/index_select_torch.py; 14.1 GiB more are kept free.
"""

from collections.abc import Iterator

from day0.engine.demand import Demand, amount
from day0.engine.legal import problems
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    working = demand.working
    if working.doubt and not problems(demand):  # else heads or widths are not whole, and nothing of it would run
        kept = amount(int(working.doubt.p95 * demand.activations))
        found = f"not rehearsed: {working.unknown}; a formula says {amount(demand.activations)}, and {kept} more are kept free"
        yield Finding(code=CHECK.code, status="warn", subject="steps", expected="a rehearsal of the engine's own code", found=found)


CHECK = check(__name__, __doc__, run, scope="plan")
