"""The state manager: pages for what grows with tokens, rings for windows, slots for what does not grow.

One page holds `page_size` tokens of every layer's growing state under the same number. Blocks read and write through `LayerState` only.
"""

from collections.abc import Sequence as Ordered
from dataclasses import dataclass

import torch
from torch import Tensor

from day0.engine.footprint import StatePool, pages_for
from day0.engine.pages import Pages
from day0.spec.lazy import torch_dtype
from day0.spec.model import Layer
from day0.spec.ops import Phase
from day0.spec.state import PAGED, Group, StateSpec
from day0.spec.step import Segment


@dataclass
class Sequence:
    """What one sequence owns."""

    slot: int  # row in state that does not grow
    pages: list[int]  # in order
    length: int  # tokens whose state is computed
    axes_3S: Tensor | None = None  # time, row and column of its first tokens, where they hold images; later ones go on from the largest


class State:
    """All pools of a model."""

    def __init__(
        self, layers: Ordered[Layer], pools: Ordered[StatePool], *, pages: int, page_size: int, sequences: int, context: int,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.page_size, self.device, self.context = page_size, device, context
        self._layers = layers
        self._pages = Pages(pages)
        self._slots = list(range(sequences))[::-1]
        self._table_BP = torch.zeros(sequences, pages_for(context, page_size), dtype=torch.int64)
        self._pools = {(pool.layer, pool.spec.name): pool for pool in pools}
        self._tensors = {
            key: torch.zeros(pool.shape, dtype=torch_dtype(pool.spec.dtype), device=device) for key, pool in self._pools.items()
        }
        self._rings = {pool.spec.group: pool.shape[1] for pool in pools if pool.spec.window is not None}
        self._groups = {pool.spec.group for pool in pools if pool.spec.grows}
        self._shareable = self._groups <= {PAGED} and all(pool.spec.grows for pool in pools)
        self.bytes = sum(tensor.nbytes for tensor in self._tensors.values())

    @property
    def usage(self) -> float:
        """Share of pages in use."""
        return self._pages.used / max(1, self._pages.count)

    def admit(self, tokens: int, parent: Sequence | None = None, shared: int = 0) -> Sequence | None:
        """A sequence of at most `tokens` tokens, None when there is no room now.

        Its first `shared` tokens are those of `parent`: where all state is paged by token, the pages that they fill are shared, not
        copied, and count as computed.
        """
        assert tokens <= self.context, "longer than the plan"
        common = parent.pages[: shared // self.page_size] if parent and self._shareable else []
        fresh = self._pages.allocate(pages_for(tokens, self.page_size) - len(common)) if self._slots else None
        if fresh is None:
            return None
        self._pages.share(common)
        sequence = Sequence(slot=self._slots.pop(), pages=common + fresh, length=len(common) * self.page_size)
        self._table_BP[sequence.slot, : len(sequence.pages)] = torch.tensor(sequence.pages, dtype=torch.int64)
        for key, pool in self._pools.items():
            if not pool.spec.grows and pool.spec.window is None:
                self._tensors[key][sequence.slot].zero_()
        return sequence

    def free(self, sequence: Sequence) -> None:
        """Give back what the sequence owns; pages that others share stay."""
        self._pages.release(sequence.pages)
        self._slots.append(sequence.slot)
        sequence.pages = []

    def segment(self, phase: Phase, news: Ordered[tuple[Sequence, Ordered[int]]]) -> Segment:
        """The new tokens of several sequences as one segment; their state counts as computed from now on."""
        tokens: list[int] = []
        spans: list[range] = []
        for sequence, new in news:
            tokens += new
            spans.append(range(sequence.length, sequence.length + len(new)))
            sequence.length += len(new)
        slots = [sequence.slot for sequence, _ in news]
        lengths = tuple(sequence.length for sequence, _ in news)
        table_BP = self._table_BP[torch.tensor(slots), : pages_for(max(lengths), self.page_size)]
        groups = self._groups | self._rings.keys()
        return Segment(
            phase=phase,
            tokens_T=torch.tensor(tokens).to(self.device),
            positions_T=torch.tensor([position for span in spans for position in span]).to(self.device),
            queries=tuple(len(new) for _, new in news),
            lengths=lengths,
            entries_N={group: self._places(group, table_BP, slots, spans).to(self.device) for group in groups},
            table_BP=table_BP.to(self.device),
            runs=tuple(_run(s.pages, pages_for(s.length, self.page_size)) for s, _ in news),
            slots=tuple(slots),
            axes_3T=_axes([sequence for sequence, _ in news], spans, self.device),
        )

    def _places(self, group: Group, table_BP: Tensor, slots: list[int], spans: list[range]) -> Tensor:
        """Where the entries of one growth group that become complete in this step go."""
        _, every, window = group
        places = []
        for row, (slot, span) in enumerate(zip(slots, spans, strict=True)):
            entries_N = torch.arange(span.start // every, span.stop // every)
            if window is not None:
                ring = self._rings[group]
                assert len(span) <= ring, f"{len(span)} new tokens in a ring of {ring}"
                places.append(slot * ring + entries_N % ring)
            else:
                width = self.page_size // every
                places.append(table_BP[row, entries_N // width] * width + entries_N % width)
        return torch.cat(places)

    def layer(self, index: int) -> "LayerState":
        """What the block of one layer sees; with the state of the layer whose keys and values it reads, where it names one."""
        layer = next(layer for layer in self._layers if layer.index == index)
        own = {name: pool.spec for (place, name), pool in self._pools.items() if place == index}
        source = None if layer.kv_source is None else self.layer(layer.kv_source)
        return LayerState(layer, own, {name: self._tensors[index, name] for name in own}, source)


class LayerState:
    """The state of one layer."""

    def __init__(self, layer: Layer, specs: dict[str, StateSpec], pools: dict[str, Tensor], source: "LayerState | None") -> None:
        self.layer, self.source = layer, source
        self._pools, self._groups = pools, {name: spec.group for name, spec in specs.items()}
        self._flat = {name: pool.flatten(0, 1) for name, pool in pools.items() if specs[name].grows or specs[name].window is not None}

    def append(self, name: str, values_N: Tensor, segment: Segment) -> None:
        """Write one entry for each new token of the segment (for each entry that they complete, where one stands for several tokens)."""
        self._flat[name].index_copy_(0, segment.entries_N[self._groups[name]], values_N)

    def pages(self, name: str) -> Tensor:
        """[pages, entries in a page, …]; [sequences, ring, …] for a window."""
        return self._pools[name]

    def entries(self, name: str, segment: Segment, b: int) -> Tensor:
        """Entries of sequence `b` in order; see `Segment.entries`."""
        return segment.entries(self._pools[name], b, self._groups[name])

    def kept(self, segment: Segment) -> dict[str, Tensor]:
        """Name → what is kept of the first sequence of the segment: entries in order, or the one value."""
        found = {}
        for name, group in self._groups.items():
            if name not in self._flat:
                found[name] = self.read(name, segment)[:1].clone()
            elif group[2] is None:
                found[name] = self.entries(name, segment, 0).clone()
            else:
                found[name] = self.entries(name, segment, 0)[-group[2] :].clone()
        return found

    def read(self, name: str, segment: Segment) -> Tensor:
        """[B, …]: state that is kept once a sequence, as the last step left it; zeros before the first."""
        return self._pools[name][list(segment.slots)]

    def write(self, name: str, values_B: Tensor, segment: Segment) -> None:
        """Replace that state."""
        self._pools[name][list(segment.slots)] = values_B.to(self._pools[name].dtype)


def _run(pages: list[int], used: int) -> int | None:
    """The first page when the used ones follow each other, else None."""
    return pages[0] if pages[:used] == list(range(pages[0], pages[0] + used)) else None


def _axes(sequences: Ordered[Sequence], spans: Ordered[range], device: torch.device) -> Tensor | None:
    """As `Segment.axes_3T`."""
    if all(sequence.axes_3S is None for sequence in sequences):
        return None
    pieces = []
    for sequence, span in zip(sequences, spans, strict=True):
        positions_3T, known = torch.arange(span.start, span.stop).expand(3, -1), sequence.axes_3S
        if known is not None:
            beyond = known.max() + 1 - known.shape[1]
            positions_3T = torch.cat((known[:, span.start : span.stop], positions_3T[:, max(0, known.shape[1] - span.start) :] + beyond), dim=1)
        pieces.append(positions_3T)
    return torch.cat(pieces, dim=1).to(device)
