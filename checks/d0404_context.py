"""The planned context is no longer than the release was made for.

Why: beyond it the rotary positions are ones that the model has never seen; answers turn to nonsense without any error.
Remedy: plan the released context, or a release whose configuration stretches it.

Example: context: 262144 tokens, expected at most 131072 tokens.
"""

from collections.abc import Iterator

from day0.engine.demand import Demand
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    released, planned = demand.release.model.context, demand.workload.context
    if planned > released:
        yield Finding(
            code=CHECK.code, status="warn", subject="context", expected=f"at most {released} tokens", found=f"{planned} tokens",
            hint=f"`--context {released}`",
        )  # fmt: skip


CHECK = check(__name__, __doc__, run, scope="plan")
