"""The least cards that hold a model for a workload, and the best legal way to cut it over them. Needs no torch."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from day0.engine.demand import Demand
from day0.engine.legal import problems
from day0.engine.working import Working, working
from day0.spec.machine import Machine
from day0.spec.placement import Placement

MOST_CARDS = 4096


def plan(demand: Demand, fixed: Mapping[str, int]) -> Demand:
    """The plan to report: least cards that fit; where none do, the machine's cards cut as well as they can be.

    Where every legal cut is ruled out by the degrees that are `fixed`, the illegal one comes back; `legal.problems` says why.
    """
    for count in counts(demand.machine, demand.machine.cards, fixed):
        found = best(demand, count, fixed, fitting=True)
        if found is not None:
            return found
    whole = best(demand, demand.machine.cards, fixed) or best(demand, max(counts(demand.machine, demand.machine.cards, fixed), default=1), fixed)
    return rehearsed(whole or demand.placed(forced(demand, fixed)))


def least(demand: Demand, fixed: Mapping[str, int]) -> Demand | None:
    """The smallest legal plan that fits, on as many such nodes as it takes; None where even thousands of cards are too few."""
    machine = replace(demand.machine, cards=MOST_CARDS)
    wide = Demand(demand.release, demand.workload, machine, demand.placement, demand.inventory)
    most = MOST_CARDS if machine.memory > wide.card().weights else 0
    for count in counts(machine, most, fixed):
        if count * machine.card.memory >= wide.inventory_bytes:
            found = best(wide, count, fixed, fitting=True)
            if found is not None:
                return found
    return None


def least_count(demand: Demand) -> int:
    """Cards of the smallest legal plan that fits; where there is none, those that the bytes alone would need."""
    if demand.holds and not problems(demand):
        return demand.placement.cards
    found = least(demand, {})
    return found.placement.cards if found else demand.least_cards()


def counts(machine: Machine, most: int, fixed: Mapping[str, int]) -> Iterator[int]:
    """Numbers of cards to try, from small to large: parts of a node that divide it, then whole nodes."""
    node = machine.cards_per_node
    step = max([1, *(degree for name, degree in fixed.items() if name != "redundant")])
    if {"tp", "dp", "pp"} <= fixed.keys():
        yield fixed["tp"] * fixed["dp"] * fixed["pp"]
        return
    inner = [count for count in range(1, node + 1) if node % count == 0 or count in fixed.values()]
    outer, nodes = [], 2
    while nodes * node <= most:
        outer.append(nodes * node)
        nodes += 1 if nodes < 8 else nodes // 8
    yield from (count for count in (*inner, *outer) if step <= count <= most)


def best(demand: Demand, count: int, fixed: Mapping[str, int], *, fitting: bool = False) -> Demand | None:
    """The legal placement on `count` cards that fits and takes most sequences; of those that do not fit, unless one is to be `fitting`, the
    one that lacks least.

    What a step holds is asked for last, and only of placements that would be the best if it were nothing.
    """
    tries = [demand.placed(placement) for placement in placements(demand, count, fixed)]
    legal = [(worth(idle(tried)), tried) for tried in tries if not problems(tried)]
    found: tuple[Worth, Demand] | None = None
    for bound, tried in sorted(legal, key=lambda each: each[0], reverse=True):
        if (found and bound <= found[0]) or (fitting and not bound[0]):
            break
        own = worth(tried)
        if found is None or own > found[0]:
            found = own, tried
    return found[1] if found and (found[0][0] or not fitting) else None


Worth = tuple[bool, int, int]


def worth(demand: Demand) -> Worth:
    """Whether a plan fits; the sequences that it takes, or what it has left where it does not fit; its ranks."""
    holds = demand.holds
    return holds, demand.sequences_that_fit if holds else demand.card().free, demand.placement.tp


def rehearsed(demand: Demand) -> Demand:
    """The same, its steps rehearsed though the weights do not fit: they may where some of them stay elsewhere."""
    same = demand.placed(demand.placement)
    same.__dict__["working"] = working(demand.inventory, demand.workload, demand.placement, demand.rules, runs=demand.workload.engine == "day0")
    return same


def idle(demand: Demand) -> Demand:
    """The same were there nothing in a step."""
    same = demand.placed(demand.placement)
    same.__dict__ |= {"working": Working(parts={}), "_weights": demand._weights}
    return same


def placements(demand: Demand, count: int, fixed: Mapping[str, int]) -> Iterator[Placement]:
    """Ways to lay `count` cards out. Stages are whole nodes unless their number is given."""
    node, experts = demand.machine.cards_per_node, demand.inventory.experts
    for pp in _degrees("pp", count, fixed):
        if "pp" not in fixed and pp > 1 and count // pp % node:
            continue
        stage = count // pp
        for tp in _degrees("tp", stage, fixed):
            dp = stage // tp
            if fixed.get("dp", dp) != dp or ("tp" not in fixed and tp > node):
                continue
            spreads = [fixed["ep"]] if "ep" in fixed else [stage] if experts % stage == 0 < experts else [1]
            extra = {name: fixed[name] for name in ("cp", "redundant") if name in fixed}
            yield from (Placement(tp=tp, ep=ep, pp=pp, dp=dp, **extra) for ep in spreads)


def forced(demand: Demand, fixed: Mapping[str, int]) -> Placement:
    """The degrees that were given, one for the others."""
    return replace(demand.placement, **fixed)


def _degrees(name: str, count: int, fixed: Mapping[str, int]) -> list[int]:
    wanted = [fixed[name]] if name in fixed else range(1, count + 1)
    return [degree for degree in wanted if count % degree == 0]
