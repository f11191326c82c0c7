"""The state manager: pages for everything that grows with tokens, slots for what does not.

One page holds `page_size` tokens of every layer's growing state under the same number. Blocks read and write through `LayerState` only.
"""

from collections.abc import Sequence as Ordered
from dataclasses import dataclass

import torch
from torch import Tensor

from day0.engine.footprint import StatePool, pages_for
from day0.engine.pages import Pages
from day0.spec.lazy import torch_dtype
from day0.spec.ops import Phase
from day0.spec.state import PAGED
from day0.spec.step import Segment


@dataclass
class Sequence:
    """What one sequence owns."""

    slot: int  # row in state that does not grow
    pages: list[int]  # in order
    length: int  # tokens whose state is computed


class State:
    """All pools of a model."""

    def __init__(
        self, pools: Ordered[StatePool], *, pages: int, page_size: int, sequences: int, context: int, device: torch.device
    ) -> None:
        self.page_size, self.device = page_size, device
        self._pages = Pages(pages)
        self._slots = list(range(sequences))[::-1]
        self._table_BP = torch.zeros(sequences, pages_for(context, page_size), dtype=torch.int64)
        self._pools: dict[tuple[int, str], Tensor] = {}
        self._recurrent = [pool for pool in pools if not pool.spec.grows]
        self.groups = {pool.spec.group for pool in pools if pool.spec.grows}
        assert self.groups <= {PAGED}, f"no page law for {self.groups}"
        for pool in pools:
            self._pools[pool.layer, pool.spec.name] = torch.zeros(pool.shape, dtype=torch_dtype(pool.spec.dtype), device=device)
        self.bytes = sum(pool.nbytes for pool in self._pools.values())

    @property
    def usage(self) -> float:
        """Share of pages in use."""
        return self._pages.used / max(1, self._pages.count)

    def admit(self, tokens: int, parent: Sequence | None = None, shared: int = 0) -> Sequence | None:
        """A sequence of at most `tokens` tokens, None when there is no room now.

        Its first `shared` tokens are those of `parent`: the pages that they fill are shared, not copied, and count as computed.
        """
        assert tokens <= self._table_BP.shape[1] * self.page_size, "longer than the plan"
        common = parent.pages[: shared // self.page_size] if parent and not self._recurrent else []
        fresh = self._pages.allocate(pages_for(tokens, self.page_size) - len(common)) if self._slots else None
        if fresh is None:
            return None
        self._pages.share(common)
        sequence = Sequence(slot=self._slots.pop(), pages=common + fresh, length=len(common) * self.page_size)
        self._table_BP[sequence.slot, : len(sequence.pages)] = torch.tensor(sequence.pages, dtype=torch.int64)
        for pool in self._recurrent:
            self._pools[pool.layer, pool.spec.name][sequence.slot].zero_()
        return sequence

    def free(self, sequence: Sequence) -> None:
        """Give back what the sequence owns; pages that others share stay."""
        self._pages.release(sequence.pages)
        self._slots.append(sequence.slot)
        sequence.pages = []

    def segment(self, phase: Phase, news: Ordered[tuple[Sequence, Ordered[int]]]) -> Segment:
        """The new tokens of several sequences as one segment; their state counts as computed from now on."""
        tokens, positions, rows = [], [], []
        for row, (sequence, new) in enumerate(news):
            tokens += new
            positions += range(sequence.length, sequence.length + len(new))
            rows += [row] * len(new)
            sequence.length += len(new)
        slots_B = torch.tensor([sequence.slot for sequence, _ in news])
        lengths = tuple(sequence.length for sequence, _ in news)
        table_BP = self._table_BP[slots_B, : pages_for(max(lengths), self.page_size)]
        positions_T = torch.tensor(positions)
        pages_T = table_BP[torch.tensor(rows), positions_T // self.page_size]
        entries_T = pages_T * self.page_size + positions_T % self.page_size
        return Segment(
            phase=phase,
            tokens_T=torch.tensor(tokens).to(self.device),
            positions_T=positions_T.to(self.device),
            queries=tuple(len(new) for _, new in news),
            lengths=lengths,
            slots_T=dict.fromkeys(self.groups, entries_T.to(self.device)),
            tables_BP=dict.fromkeys(self.groups, table_BP.to(self.device)),
            runs=dict.fromkeys(self.groups, tuple(_run(s.pages, pages_for(s.length, self.page_size)) for s, _ in news)),
            sequences_B=slots_B.to(self.device),
        )

    def layer(self, index: int) -> "LayerState":
        """What the block of one layer sees."""
        return LayerState({name: pool for (layer, name), pool in self._pools.items() if layer == index})


class LayerState:
    """The pools of one layer."""

    def __init__(self, pools: dict[str, Tensor]) -> None:
        self._pools = pools
        self._flat = {name: pool.flatten(0, 1) for name, pool in pools.items()}

    def append(self, name: str, values_T: Tensor, segment: Segment) -> None:
        """Write one entry for each new token of the segment."""
        self._flat[name].index_copy_(0, segment.slots_T[PAGED], values_T)

    def pages(self, name: str) -> Tensor:
        """[pages, entries in a page, …]."""
        return self._pools[name]


def _run(pages: list[int], used: int) -> int | None:
    """The first page when the used ones follow each other, else None."""
    return pages[0] if pages[:used] == list(range(pages[0], pages[0] + used)) else None
