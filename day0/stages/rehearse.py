"""How much a step computes at once, from running it on shadows with the implementations that `map-ops` will choose."""

from day0.engine.demand import Demand
from day0.engine.rehearsal import Rehearsal
from day0.spec.placement import ONE_CARD
from day0.stages.map_ops import Chooser, is_forced, sites


def rehearse(demand: Demand) -> None:
    """Take the activations of a plan on one card from a rehearsal: where this engine runs it, and the weights leave room for a step."""
    load = demand.workload
    held = sum(demand.holdings.weights().values())
    if load.engine != "day0" or demand.placement != ONE_CARD or held >= demand.machine.card.memory:
        return
    rows = list(sites(demand.release, load, Chooser(demand.machine, references_only=is_forced() is not None)))
    if all(row.status != "missing" for row in rows):
        formula = sum(demand.transients.values())
        demand.inventory.rehearsed = Rehearsal(demand.release, rows, load.dtype).peak(load) / max(1, formula)
        del demand.transients
