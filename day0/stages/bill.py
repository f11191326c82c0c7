"""The rows of a plan: what adds up to the weights and the state of the cards."""

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from math import ceil

from day0.engine.demand import Demand
from day0.engine.entries import Pool
from day0.engine.footprint import Buffer
from day0.engine.inventory import Weights
from day0.spec.placement import ONE_CARD, Placement
from day0.spec.reports.plan_memory import State, StatePool, TensorGroup, WeightPool

Count = Callable[[Buffer, Weights], Counter[str]]


def pools(demand: Demand) -> list[WeightPool]:
    """Allocations of weights, on all cards together."""
    held: Counter[str] = Counter()
    for stage in range(demand.placement.pp):
        for name, size in demand.holdings.weights(stage).items():
            held[name] += size * demand.placement.stage
    return [WeightPool(name=name, bytes=size) for name, size in held.items()]


def groups(demand: Demand) -> list[TensorGroup]:
    """Weights by role, as they lie in memory when they are there."""
    whole, tensors, stored = _whole(demand)
    held, most, companions = Counter[str](), Counter[str](), Counter[str]()
    for stage in range(demand.placement.pp):
        for role, size in _card(demand, stage, _roles).items():
            held[role] += size * demand.placement.stage
            most[role] = max(most[role], size)
        companions.update({role: size * demand.placement.stage for role, size in _card(demand, stage, _scales).items()})
    scales = _scales_stored(demand)
    residency = demand.workload.weights
    return [
        TensorGroup(
            role=role, tensors=tensors[role], stored=stored[role], bytes=held[role], residency=residency, per_card=most[role],
            scales_stored=scales[role], scales=companions[role],
            copies=round(held[role] / whole[role], 4) if whole[role] else 1,
        )
        for role in held
    ]  # fmt: skip


def _card(demand: Demand, stage: int, count: Count) -> Counter[str]:
    """Role → bytes on one card of a stage, as `count` counts those of a buffer."""
    found: Counter[str] = Counter()
    kinds = [count(demand.cut.buffer(weights), weights) for weights in demand.inventory.kinds]
    for index in demand.holdings.stages[stage]:
        found.update(kinds[demand.inventory.kind_of[index]])
    ends = demand.holdings.ends(stage)
    found.update(count(demand.cut.buffer(ends), ends))
    if count is _roles:
        found.update({name: size for name, size in demand.holdings.weights(stage).items() if name in ("absorbed", "prediction", "towers")})
    return found


def _scales(laid: Buffer, weights: Weights) -> Counter[str]:
    """Role → bytes of companions in a buffer."""
    held: Counter[str] = Counter()
    for part in laid.slices:
        if part.part not in ("", "data"):
            held[weights[part.name].spec.role] += part.bytes
    return held


def _scales_stored(demand: Demand) -> Counter[str]:
    """Role → bytes of companions in the released files."""
    held: Counter[str] = Counter()
    counts = Counter(demand.inventory.kind_of)
    for weights, count in [*((demand.inventory.kinds[kind], count) for kind, count in counts.items()), (demand.inventory.ends, 1)]:
        for located in weights.values():
            parts = (times * part.bytes for stored, times in located.alike for name, part in stored.kept.items() if name != "data")
            held[located.spec.role] += count * sum(parts)
    return held


def _whole(demand: Demand) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Role → bytes on a card that holds everything, canonical tensors, bytes in the released files."""
    held: Counter[str] = Counter()
    tensors: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    inventory, load, alone = demand.inventory, demand.workload, demand.placed(ONE_CARD).cut
    counts = Counter(inventory.kind_of)
    for weights, times in [*((inventory.kinds[kind], times) for kind, times in counts.items()), (inventory.ends, 1)]:
        for role, size in _roles(alone.buffer(weights), weights).items():
            held[role] += size * times
        for located in weights.values():
            tensors[located.spec.role] += times
            stored[located.spec.role] += times * sum(weight.bytes * alike for weight, alike in located.alike)
    if load.prediction:
        prediction = inventory.prediction
        held["prediction"], tensors["prediction"] = alone.buffer(prediction).bytes, len(prediction)
        stored["prediction"] = sum(demand.release.checkpoint.stored[name].bytes for name in demand.release.prediction)
    if load.vision:
        held["towers"], stored["towers"] = inventory.tower_bytes(run=load.sees), inventory.tower_bytes(run=False)
        tensors["towers"] = sum(len(names) for names in demand.release.towers.values())
    return held, tensors, stored


def _roles(laid: Buffer, weights: Weights) -> Counter[str]:
    """Role → bytes in a buffer, gaps counted to what comes before them."""
    held: Counter[str] = Counter()
    ends = [following.start for following in laid.slices[1:]] + [laid.bytes]
    for part, end in zip(laid.slices, ends, strict=False):  # a stage in the middle has no ends, and one end of nothing
        held[weights[part.name].spec.role] += end - part.start
    return held


def state(demand: Demand) -> State:
    """What is kept between steps: the pools of all cards, and what a token and a sequence cost."""
    load, place = demand.workload, demand.placement
    found = _pools(demand)
    rows = []
    for _, same in groupby(sorted(found, key=_kind), key=_kind):
        members = list(same)
        first = members[0]
        rows.append(
            StatePool(
                name=first.spec.name, kind=first.spec.kind, layers=len(members), entry_bytes=first.entry_bytes, every=first.spec.every,
                window=first.spec.window, pages=first.count if first.spec.grows else 0, formula=formula(first, len(members)),
                bytes=sum(pool.bytes for pool in members) * place.stage, copies=copies(first, place),
            )
        )  # fmt: skip
    token, sequence = _costs(_pools(demand.placed(ONE_CARD)))
    card_token, card_sequence = _costs(found)
    return State(
        bytes_per_token=token, bytes_per_sequence=sequence, page_size=load.page_size, pages=demand.pages, pools=rows,
        card_bytes_per_token=ceil(card_token / place.cp), card_bytes_per_sequence=card_sequence,
    )  # fmt: skip


def formula(pool: Pool, layers: int) -> str:
    """In words that can be checked by hand."""
    spec = pool.spec
    shape = " × ".join(map(str, spec.shape))
    every = f" / {spec.every} tokens" if spec.every > 1 else " a token" if spec.grows else f" × {pool.entries} a sequence"
    return f"{layers} layers × {pool.entry_bytes} bytes on a card (its part of {shape} elements){every}"


def copies(pool: Pool, place: Placement) -> float:
    """How often the cards of one copy of attention hold an entry."""
    spec = pool.spec
    shared = place.cp if spec.grows and not spec.heads else 1
    return place.tp * spec.elements(place.tp) / spec.elements(1) / shared


def _pools(demand: Demand) -> list[Pool]:
    return [pool for stage in range(demand.placement.pp) for pool in demand.pools(demand.pages, stage)]


def _kind(pool: Pool) -> str:
    return repr((pool.spec, pool.entry_bytes))


def _costs(found: list[Pool]) -> tuple[int, int]:
    token = sum(pool.entry_bytes / pool.spec.every for pool in found if pool.spec.grows)
    return ceil(token), sum(pool.entry_bytes * pool.entries for pool in found if not pool.spec.grows)
