"""What a call costs: arithmetic, bytes at the least and as mapped, and the time that a card's figures allow. Needs no torch."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from day0.engine.release import Located
from day0.spec import dtype as number
from day0.spec.machine import Card
from day0.spec.ops import Op, Site
from day0.spec.record import record
from day0.spec.registry import formats
from day0.stages.rank import Rank


@record
class Work:
    """Of one call."""

    flops: float  #: floating-point operations
    bytes: float  #: read and written at the least
    decoded: float = 0.0  #: bytes that decoding packed weights first would add
    unpacked: float = 0.0  #: bytes more that its weights would take if they were kept decoded

    def seconds(self, card: Card, dtype: str) -> float | None:
        """At the card's figures, the longer of moving and computing; None without a bandwidth that can be trusted."""
        if not card.bandwidth:
            return None
        rate = card.flops.get(dtype)
        return max(self.bytes / card.bandwidth, self.flops / rate if rate else 0.0)


def work(site: Site, op: Op, weights: Mapping[str, Located], rank: Rank) -> Work:
    """Of a call whose sizes are filled in; an operator that reads state costs once for every sequence."""
    sequences = rank.sequences(site.phase)
    whole = replace(site, sizes={**site.sizes, "T": site.S * sequences}) if site.options.get("rows") == "S" else site
    each = sequences if any({"P", "B"} & set(axes) for axes in op.inputs.values()) else 1
    cost = op.cost(replace(whole, sizes={**whole.sizes, "T": max(1, whole.T // each)}))
    item = number.size(site.dtype, 1)
    elements = rest = unpacked = 0.0
    for located in (weights[name] for name in site.weights if name in weights):
        share, count = used(site, located, rank), prod(located.spec.shape) * rank.share(located)
        elements += share * count
        stored = located.pieces[0][1]
        each_rests = stored.bytes / prod(stored.shape) if formats().get(located.format).packed else item
        rest += share * count * each_rests
        unpacked += count * (item - each_rests)
    packed = any(formats().get(form).packed for form in site.format.split("+"))
    moved = max(0.0, each * cost.bytes * item / 2 - elements * item) + rest
    return Work(flops=each * cost.flops, bytes=moved, decoded=2 * elements * item if packed else 0.0, unpacked=unpacked)


def used(site: Site, located: Located, rank: Rank) -> float:
    """Share of a weight that the tokens of a step read: chosen experts, looked up rows, else all of it."""
    if located.spec.role == "expert":
        chosen, of = located.spec.used
        return float(1 - (1 - chosen / of) ** (rank.tokens(site.phase) * rank.place.dp))
    if site.op == "embedding":
        return min(1.0, site.T / max(1, located.spec.shape[0]))
    return 1.0
