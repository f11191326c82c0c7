"""What lies off the cards when they are too small: routed experts, the coldest first. Needs no torch."""

from math import ceil

from day0.engine.demand import Demand, amount, largest
from day0.engine.search import rehearsed
from day0.spec.reports.plan_memory import Offload, Tier

STAGING = 2  # layers of experts that pass through the host's memory at a time


def offload(demand: Demand, host: int | None) -> Offload:
    """Tiers for what the cards have no room for; `host` is what the host's memory may take, None where it is not known."""
    banks = [demand.inventory.banks[kind] for kind in demand.inventory.kind_of]
    whole, layer, moved = sum(sum(bank.values()) for bank in banks), _layer(demand), excess(demand)
    if not moved:
        return Offload(feasible=True, tiers=[])
    if moved > whole:
        reason = f"{amount(moved)} too many, and routed experts are {amount(whole)}{_shorter(demand, whole)}"
        return Offload(feasible=False, tiers=[], reason=reason)
    staging = STAGING * layer
    kept = moved if host is None else min(moved, max(0, host - staging))
    pinned = sum(power(size) for bank in banks for size in bank.values())
    tiers = []
    if kept:
        most = max(kept + staging, ceil(pinned * kept / whole))
        tiers.append(Tier(where="host", bytes=kept, needed_p50=kept + staging, needed_p95=most, experts=kept / whole))
    if moved > kept:
        left = moved - kept
        tiers.append(Tier(where="disk", bytes=left, needed_p50=left, needed_p95=left, experts=left / whole))
    over = host is not None and any(one.where == "host" and one.needed_p95 > host for one in tiers)
    reason = f"pinned in powers of two they need {amount(tiers[0].needed_p95)} of the host: map them from the files instead" if over else ""
    return Offload(feasible=True, tiers=tiers, reason=reason)


def excess(demand: Demand) -> int:
    """Bytes of experts that the cards have no room for, with the layer of them that then passes through; 0 where they have room."""
    short, share = max(0, -demand.card().free), 1 + demand.rules.slack.p95 + (demand.residual.p95 if demand.residual else 0)
    return demand.placement.cards * ceil(short / share) + _layer(demand) if short else 0  # the margin shrinks with what is moved


def _layer(demand: Demand) -> int:
    """Bytes of the largest layer's experts."""
    return max((sum(bank.values()) for bank in demand.inventory.banks), default=0)


def _shorter(demand: Demand, whole: int) -> str:
    """The longest context at which all experts elsewhere would be enough, in words; empty where none is."""
    page = demand.workload.page_size
    pages = largest(lambda pages: excess(rehearsed(demand.under(context=pages * page))) <= whole)
    return f"; they would do for --context {pages * page}" if pages else ""


def power(size: int) -> int:
    """The next power of two; 0 of nothing."""
    return 1 << (size - 1).bit_length() if size else 0
