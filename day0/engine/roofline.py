"""How fast a plan can be at the most: bytes and operations of a step by the machine's figures. Needs no torch.

What weights are read follows from where they lie; what state is read and how many operations there are, from the operators' own costs.
"""

from collections.abc import Iterator
from dataclasses import replace

from day0.engine.demand import Demand
from day0.spec import dtype as number
from day0.spec.model import Layer
from day0.spec.ops import PHASES, Cost, Phase, Site
from day0.spec.record import record
from day0.spec.registry import ops, parts
from day0.spec.reports.roofline import Limit, PhaseBound, Roofline

BANDWIDTH, OPERATIONS = 0.8, 0.5  # shares of a machine's figures that engines usually reach
LATENCY = 60e-6  # seconds of a layer that no bandwidth explains; 30 to 100 µs are published for engines of 2026, 250 for those of 2025
SPARSE = "sparse_latent_attention"
DENSE = ("attention", "latent_attention")  # what runs instead while no sequence is longer than what a query may read
CHOOSING = (SPARSE, "index_scores", "index_select", "choose_entries")  # and what does not run then
REDUCTIONS = 2  # sums over tensor-parallel ranks in a layer


@record
class Work:
    """What one card does in a step."""

    weights: float = 0.0  #: bytes of weights
    state: float = 0.0  #: bytes of state, read and written
    sent: float = 0.0  #: bytes sent to other cards
    flops: float = 0.0  #: operations


def roofline(demand: Demand) -> Roofline:
    """Bounds of both phases. Without a bandwidth or a rate that can be trusted there are bytes, and no seconds."""
    card = demand.machine.card
    unknown = "" if card.bandwidth else f"no bandwidth of {card.name} can be trusted"
    if not unknown and not card.flops.get(demand.workload.dtype):
        unknown = f"no rate of {card.name} in {demand.workload.dtype} can be trusted"
    if not unknown and demand.placement.cards > 1 and not demand.machine.link:
        unknown = f"no bandwidth between cards of {card.name} can be trusted"
    prediction = demand.release.model.prediction
    return Roofline(
        phases=[bound(demand, phase, not unknown) for phase in PHASES], unknown=unknown,
        prediction=prediction.count if prediction else 0,
        assumptions=[
            f"usually {BANDWIDTH:.0%} of the bandwidth and {OPERATIONS:.0%} of the operations are reached; {LATENCY * 1e6:.0f} µs more a layer",
            "each token chooses its experts apart from the others",
        ],
    )  # fmt: skip


def bound(demand: Demand, phase: Phase, timed: bool) -> PhaseBound:
    """One phase."""
    done, tokens, layers = work(demand, phase), step_tokens(demand, phase), len(demand.release.model.layers)
    best = usual = None
    limit: Limit | None = None
    if timed:
        best, _ = seconds(demand, done, 1.0, 1.0, 0.0)
        usual, limit = seconds(demand, done, BANDWIDTH, OPERATIONS, LATENCY * layers)
    return PhaseBound(
        phase=phase, tokens=tokens, weight_bytes=round(done.weights), state_bytes=round(done.state), collective_bytes=round(done.sent),
        flops=done.flops, experts=distinct(demand, tokens), seconds_best=best, seconds_usual=usual, limit=limit,
    )  # fmt: skip


def seconds(demand: Demand, done: Work, reached: float, computed: float, latency: float) -> tuple[float, Limit]:
    """Of a step through all stages, and what takes most of it: memory and operations overlap, the rest does not."""
    card, link = demand.machine.card, demand.machine.link or 1.0
    assert card.bandwidth
    rate = card.flops[demand.workload.dtype]
    terms: dict[Limit, float] = {
        "weights": done.weights / (card.bandwidth * reached), "state": done.state / (card.bandwidth * reached),
        "operations": done.flops / (rate * computed), "collectives": done.sent / link, "latency": latency,
    }  # fmt: skip
    whole = max(terms["weights"] + terms["state"], terms["operations"]) + terms["collectives"] + latency
    return whole, max(terms, key=lambda name: terms[name])


def step_tokens(demand: Demand, phase: Phase) -> int:
    """Tokens of a step, all copies of attention together."""
    load = demand.workload
    return load.batch if phase == "decode" else min(load.chunk, load.context) * demand.placement.dp


def distinct(demand: Demand, tokens: int) -> float:
    """Experts of a layer that so many tokens are expected to touch: E (1 - (1 - k/E)^tokens)."""
    kinds = [routing for layer, _ in demand.inventory.layers if (routing := _routing(layer))]
    return max((E * (1 - (1 - k / E) ** tokens) for k, E in kinds), default=0.0)


def work(demand: Demand, phase: Phase) -> Work:
    """Of one card of every stage in turn."""
    place, tokens = demand.placement, step_tokens(demand, phase)
    total = Work()
    for kind, (layer, weights) in enumerate(demand.inventory.layers):
        times = demand.inventory.kind_of.count(kind)
        held = demand.holdings.kinds[kind]
        banks = demand.cut.buffer({name: each for name, each in weights.items() if each.spec.role == "expert"}).bytes
        k, E = _routing(layer) or (0, 1)
        read = held - banks + banks * (distinct(demand, tokens) / E if k else 0)
        own = [of_site(demand, site) for site in layer_sites(demand, layer, phase)]
        spread = 2 * tokens / place.dp * k * demand.release.model.hidden * (1 - 1 / place.ep) if k else 0
        sent = _bytes(demand, REDUCTIONS * 2 * (1 - 1 / place.tp) * tokens / place.dp * demand.release.model.hidden + spread)
        total = Work(
            weights=total.weights + times * read, state=total.state + times * sum(cost.bytes for cost in own),
            sent=total.sent + times * sent, flops=total.flops + times * sum(cost.flops for cost in own),
        )  # fmt: skip
    head = demand.holdings.ends(place.pp - 1)
    rows = demand.cut.buffer({name: each for name, each in head.items() if each.spec.role == ("embed" if demand.release.model.tied else "head")})
    outputs = demand.sequences if phase == "decode" else 1
    return replace(
        total, weights=total.weights + rows.bytes,
        flops=total.flops + 2 * outputs * demand.release.model.vocab * demand.release.model.hidden / place.tp,
        sent=total.sent + _bytes(demand, (place.pp - 1) * tokens / place.dp * demand.release.model.hidden),
    )  # fmt: skip


def layer_sites(demand: Demand, layer: Layer, phase: Phase) -> Iterator[tuple[Site, int]]:
    """Calls of a layer on one copy's tokens, each for one sequence, and how many sequences there are."""
    load, count = demand.workload, demand.sequences if phase == "decode" else 1
    sizes = {"T": 1 if phase == "decode" else min(load.chunk, load.context), "S": load.context}
    calls = [site for _, part in layer.parts() for site in parts().get(part.kind).sites(part, demand.release.model.hidden, phase)]
    chosen = next((site.K for site in calls if site.op == SPARSE), None)
    for site in calls:
        dense = site.op in DENSE or site.options.get("rows") == "S"
        if chosen is None or (not dense if load.context > chosen else site.op not in CHOOSING):
            yield replace(site, sizes={**site.sizes, **sizes}, dtype=load.dtype), count


def of_site(demand: Demand, call: tuple[Site, int]) -> Cost:
    """Operations of a call on one card, and the bytes of state that it reads: those of operators that have no weights."""
    site, count = call
    if site.op not in ops():
        return Cost(flops=0.0, bytes=0.0)
    cost, tp = ops().get(site.op).cost(site), demand.placement.tp
    return Cost(flops=count * cost.flops / tp, bytes=0.0 if site.weights else count * cost.bytes / (tp if "N" in site.sizes else 1))


def _routing(layer: Layer) -> tuple[int, int] | None:
    """(experts of a token, experts) of a layer."""
    part = layer.ffn
    k, E = getattr(part, "top_k", 0), getattr(part, "experts", 0)
    return (k, E) if k and E else None


def _bytes(demand: Demand, count: float) -> float:
    return number.size(demand.workload.dtype, 8) / 8 * count
