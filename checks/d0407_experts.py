"""Every rank of expert parallelism holds as many routed experts as the others.

Why: engines keep experts in one tensor a rank, and refuse to start where the last rank would have fewer.
Remedy: a degree that divides the experts (`--ep`), or experts held twice (`--redundant-experts`).
"""

from collections.abc import Iterator

from day0.engine.demand import Demand
from day0.engine.legal import found
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    yield from found(demand, CHECK.code, "experts")


CHECK = check(__name__, __doc__, run, scope="plan")
