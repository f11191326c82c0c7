"""Where a weight is cut, no group or block of elements that share a scale is cut with it.

Why: an engine that finds half a group refuses after minutes of loading, or on the first request.
Remedy: fewer ranks of tensor parallelism (`--tp`), whole experts on ranks (`--ep`), or a release with smaller groups.
"""

from collections.abc import Iterator

from day0.engine.demand import Demand
from day0.engine.legal import found
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    yield from found(demand, CHECK.code, "alignment")


CHECK = check(__name__, __doc__, run, scope="plan")
