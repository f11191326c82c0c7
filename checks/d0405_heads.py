"""Every rank of tensor parallelism gets as many whole heads as the others.

Why: a head that is cut, or a rank without one, fails when the first weight is loaded, or reads the wrong half and answers nonsense.
Remedy: a degree that divides the heads (`--tp`); the plan names them. Key heads may be copied where ranks are a multiple of them.
"""

from collections.abc import Iterator

from day0.engine.demand import Demand
from day0.engine.legal import found
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    yield from found(demand, CHECK.code, "heads")


CHECK = check(__name__, __doc__, run, scope="plan")
