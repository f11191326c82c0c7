"""What one card holds of the state: entries in the type that was asked for, heads and tokens cut as the placement says. Needs no torch."""

from collections import Counter
from collections.abc import Sequence

from day0.engine.footprint import layer_state, pages_for
from day0.spec import dtype as number
from day0.spec.model import Layer
from day0.spec.placement import Placement
from day0.spec.record import record
from day0.spec.reports.plan_memory import WorkloadRow
from day0.spec.rules import Rules
from day0.spec.state import StateSpec

NARROW = ("fp8", "int8")  # types of state of 8 bits
QUANTISED = ("attention", "latent", "index")  # state that is stored in the narrow type


@record
class Pool:
    """One piece of state of one layer on one card."""

    layer: int  #: index in the stack; beyond it for prediction layers
    spec: StateSpec  #: what it is
    entry_bytes: int  #: of the card's part of one entry
    entries: int  #: in a page where it grows, else for one sequence
    count: int  #: pages where it grows, else sequences

    @property
    def bytes(self) -> int:
        """Bytes of the pool."""
        return self.entry_bytes * self.entries * self.count


def entry_bytes(layer: Layer, spec: StateSpec, load: WorkloadRow, rules: Rules, arch: str, tp: int) -> int:
    """Bytes of one card's part of an entry."""
    elements = spec.elements(tp)
    if load.kv_dtype not in NARROW or spec.use not in QUANTISED:
        asked = load.kv_dtype if load.kv_dtype and spec.use in QUANTISED else spec.dtype
        return number.size(asked, elements)
    chosen = layer.index_source is not None or any(each.use == "index" for each in layer_state(layer, load.dtype))
    for rule in rules.entries:
        about = rule.use == spec.use and rule.kv == load.kv_dtype and (not rule.kinds or spec.kind in rule.kinds)
        if about and (not rule.arch or arch in rule.arch) and (chosen or not rule.sparse):
            return rule.bytes(spec, elements, number.size(spec.dtype, 1))
    return elements


def pool(layer: Layer, spec: StateSpec, load: WorkloadRow, rules: Rules, arch: str, place: Placement, pages: int) -> Pool:
    """The pool of one piece of state when the sequences of a card have `pages` pages."""
    size = entry_bytes(layer, spec, load, rules, arch, place.tp)
    sequences = -(-load.batch // place.dp)
    if spec.grows:
        mine = -(-pages // place.cp) if not spec.heads else pages
        return Pool(layer=layer.index, spec=spec, entry_bytes=size, entries=load.page_size // spec.every, count=mine)
    return Pool(layer=layer.index, spec=spec, entry_bytes=size, entries=once(spec, load, rules), count=sequences)


def once(spec: StateSpec, load: WorkloadRow, rules: Rules) -> int:
    """Entries that a sequence has whatever its length."""
    if spec.window is None:
        return 1
    ring = spec.ring(load.chunk, load.context)
    return (pages_for(ring, load.page_size) + rules.window_pages) * load.page_size if rules.window_pages else ring


def printed_tokens(pools: Sequence[Pool], room: int) -> int:
    """Tokens that an engine states for `room` bytes when layers get pages in groups, and all groups are as large as the rarest kind.

    A page is as large as the growth of one layer; layers whose state does not grow get such pages too, so that fewer tokens are stated
    than fit. `pools` are those of one page, layer by layer.
    """
    counts = Counter(pool.spec.grows for pool in pools if pool.spec.name == _first(pools, pool.spec.grows))
    token = sum(pool.entry_bytes // pool.spec.every for pool in pools if pool.spec.grows) // max(1, counts[True])
    rarest = min(counts.values(), default=1)
    groups = sum(-(-count // rarest) for count in counts.values())
    return room // max(1, groups * rarest * token)


def _first(pools: Sequence[Pool], grows: bool) -> str:
    """Name of the first piece of state of its kind: each layer has it once."""
    return next(pool.spec.name for pool in pools if pool.spec.grows == grows)
