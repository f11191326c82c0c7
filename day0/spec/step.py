"""All that one forward pass needs: the tokens of several sequences, in one phase or two, without globals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from day0.spec.lazy import torch
from day0.spec.ops import Phase

if TYPE_CHECKING:
    from torch import Tensor

Group = tuple[str, int, int | None]


@dataclass(frozen=True)
class Turn:
    """Angles of one rope at the positions of a segment: what every layer's rotation shares."""

    cos_TR: Tensor  #: one column a pair of dimensions, float32
    sin_TR: Tensor  #: the same

    @cached_property
    def halves(self) -> tuple[Tensor, Tensor]:
        """(cos, cos) and (-sin, sin) as [T, 1, 2R]: x · cos + roll(x, R) · sin turns pairs (i, i + R)."""
        cos, sin = self.cos_TR[:, None], self.sin_TR[:, None]
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


@dataclass(kw_only=True)
class Segment:
    """The tokens of one phase, one sequence after the other."""

    phase: Phase  #: "decode" has one new token a sequence
    tokens_T: Tensor  #: token ids, int64
    positions_T: Tensor  #: position of each token in its sequence, int64
    queries: tuple[int, ...]  #: new tokens of each sequence
    lengths: tuple[int, ...]  #: tokens of each sequence once this step is done
    slots_T: Mapping[Group, Tensor]  #: growth group → entry that each new token writes to, int64
    tables_BP: Mapping[Group, Tensor]  #: growth group → pages of each sequence in order, padded with page 0, int64
    runs: Mapping[Group, tuple[int | None, ...]]  #: growth group → first page of each sequence whose pages are one run, else None
    sequences_B: Tensor  #: slot of each sequence in state that does not grow, int64
    rotary: dict[Any, Turn] = field(default_factory=dict)  #: Rope → its angles at these positions
    shared: dict[Any, Any] = field(default_factory=dict)  #: what one layer computes and later layers read (masks, indices)

    def entries(self, pages: Tensor, b: int, group: Group) -> Tensor:
        """Entries of sequence `b` in `pages` [pages, entries in a page, …], in order: a view where its pages are one run, else a copy."""
        count = -(-self.lengths[b] // group[1]) if group[1] > 1 else self.lengths[b]
        run = self.runs[group][b]
        if run is not None:
            return pages.flatten(0, 1).narrow(0, run * pages.shape[1], count)
        used = -(-count // pages.shape[1])
        return pages[self.tables_BP[group][b, :used]].flatten(0, 1)[:count]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(self.lengths)


@dataclass(kw_only=True)
class Step:
    """One forward pass. Tokens are flattened: those of `decode` first, then those of `prefill`."""

    decode: Segment | None  #: sequences that go on by one token
    prefill: Segment | None  #: sequences (or chunks of them) that are read in
    outputs: Tensor  #: rows of the flattened tokens whose logits are wanted, int64

    def segments(self) -> list[Segment]:
        """The phases that are present, in the order of their tokens."""
        return [segment for segment in (self.decode, self.prefill) if segment is not None]

    @property
    def tokens(self) -> int:
        """Tokens of the whole step."""
        return sum(segment.tokens_T.shape[0] for segment in self.segments())
