"""Weights can be laid out anew beside those that are loaded.

Why: weights that fit once they are there may need twice their largest layer on the way, and loading dies at its very end.
Remedy: more cards, or an engine that lays experts out one at a time.
"""

from collections.abc import Iterator

from day0.engine import search
from day0.engine.demand import Demand, amount
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    short, load = demand.load_shortage, demand.load()
    if 0 < short <= load["transient"]:
        room = f"at most {amount(demand.machine.card.memory - demand.context)}"
        found = f"{amount(load['peak'])} at the peak, of which {amount(load['transient'])} are given back: {amount(short)} short"
        hint = f"the whole needs at least {search.least_count(demand)} such cards"
        yield Finding(code=CHECK.code, status="fail", subject="loading", expected=room, found=found, hint=hint)


CHECK = check(__name__, __doc__, run, scope="plan")
