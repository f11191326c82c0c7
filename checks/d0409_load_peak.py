"""Weights can be laid out anew beside those that are loaded.

Why: weights that fit once they are there may need twice their largest layer on the way, and loading dies at its very end.
Remedy: more cards, or an engine that lays experts out one at a time.
"""

from collections.abc import Iterator

from day0.engine.demand import Demand, amount
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    load, memory = demand.load(), demand.machine.card.memory
    room = memory - demand.context
    if load["transient"] and load["peak"] > room and not demand.shortage("weights"):
        found = f"{amount(load['peak'])} at the peak, of which {amount(load['transient'])} are given back: {amount(load['peak'] - room)} short"
        yield Finding(code=CHECK.code, status="fail", subject="loading", expected=f"at most {amount(room)}", found=found, hint="more cards")


CHECK = check(__name__, __doc__, run, scope="plan")
