"""The ranks that were asked for are cards that there are, in whole nodes.

Why: a stage that straddles nodes sends every activation over the slow links, and ranks without a card never start.
Remedy: degrees whose product is a part of a node, or a number of whole nodes; fewer stages than layers.
"""

from collections.abc import Iterator

from day0.engine.demand import Demand
from day0.engine.legal import found
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    yield from found(demand, CHECK.code, "cards", "nodes", "ranks")


CHECK = check(__name__, __doc__, run, scope="plan")
