"""All that one forward pass needs: the tokens of several sequences, in one phase or two, without globals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from day0.spec.lazy import torch
from day0.spec.ops import Phase
from day0.spec.state import Group

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Turn:
    """Angles of one rope at the positions of a segment: what every layer's rotation shares."""

    cos_TA: Tensor  #: one column a pair of dimensions, float32
    sin_TA: Tensor  #: the same
    frequencies_A: Tensor | None = None  #: radians a token, for angles at other positions
    factor: float = 1.0  #: on cosine and sine

    @classmethod
    def of(cls, positions_T: Tensor, frequencies_A: Tensor, factor: float = 1.0) -> Turn:
        """Angles at given positions: [T], or [T, A] where pairs of dimensions turn with positions of their own."""
        angles_TA = (positions_T if positions_T.dim() == 2 else positions_T[:, None]).float() * frequencies_A
        return cls(angles_TA.cos() * factor, angles_TA.sin() * factor, frequencies_A, factor)

    def at(self, positions_N: Tensor) -> Turn:
        """The same rope at other positions, such as those of compressed entries."""
        assert self.frequencies_A is not None
        return Turn.of(positions_N, self.frequencies_A, self.factor)

    @cached_property
    def inverse(self) -> Turn:
        """The rotation back."""
        return Turn(self.cos_TA, -self.sin_TA, self.frequencies_A, self.factor)

    @cached_property
    def halves(self) -> tuple[Tensor, Tensor]:
        """(cos, cos) and (-sin, sin) as [T, 1, R]: x · cos + roll(x, A) · sin turns pairs (i, i + A)."""
        cos, sin = self.cos_TA[:, None], self.sin_TA[:, None]
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


@dataclass(kw_only=True)
class Segment:
    """The tokens of one phase, one sequence after the other."""

    phase: Phase  #: "decode" has one new token a sequence
    tokens_T: Tensor  #: token ids, int64
    positions_T: Tensor  #: position of each token in its sequence, int64
    queries: tuple[int, ...]  #: new tokens of each sequence
    lengths: tuple[int, ...]  #: tokens of each sequence once this step is done
    entries_N: Mapping[Group, Tensor]  #: growth group → place in the flattened pool of each new entry, int64
    table_BP: Tensor  #: pages of each sequence in order, padded with page 0, int64
    runs: tuple[int | None, ...]  #: first page of each sequence whose pages are one run, else None
    slots: tuple[int, ...]  #: of each sequence, in state that is kept once a sequence
    axes_3T: Tensor | None = None  #: time, row and column of each token where sequences hold images; None: all three are the position
    rotary: dict[Any, Turn] = field(default_factory=dict)  #: Rope → its angles at these positions
    shared: dict[Any, Any] = field(default_factory=dict)  #: what one layer computes and later layers read (masks, indices)

    def first(self, b: int, group: Group) -> int:
        """Position of the first entry that `entries` gives: 0, or what a window still shows to the first new token."""
        window = group[2]
        return 0 if window is None else max(0, self.lengths[b] - self.queries[b] - window + 1)

    def entries(self, pool: Tensor, b: int, group: Group) -> Tensor:
        """Entries of sequence `b`, in order: a view where they lie in one run, else a copy.

        `pool` is [pages, entries in a page, …]; [sequences, ring, …] for a window. Compressed entries count once their tokens are complete.
        """
        flat, width = pool.flatten(0, 1), pool.shape[1]
        if group[2] is not None:
            first = self.first(b, group)
            start, count = self.slots[b] * width, self.lengths[b] - first
            if first % width + count <= width:
                return flat.narrow(0, start + first % width, count)
            return flat[(torch.arange(first, first + count, device=flat.device) % width) + start]
        count, run = self.lengths[b] // group[1], self.runs[b]
        if run is not None:
            return flat.narrow(0, run * width, count)
        return pool[self.table_BP[b, : -(-count // width)]].flatten(0, 1)[:count]

    def places(self, positions_TK: Tensor, width: int, rows: slice = slice(None)) -> Tensor:
        """Places in a flattened pool of `width` tokens a page: the positions of each token (of `rows`) are those of its own sequence."""
        return self.table_BP[self.sequences_T[rows, None], positions_TK // width] * width + positions_TK % width

    @cached_property
    def sequences_T(self) -> Tensor:
        """Row of each token's sequence, int64."""
        counts = torch.tensor(self.queries, device=self.table_BP.device)
        return torch.arange(len(self.queries), device=self.table_BP.device).repeat_interleave(counts)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(self.lengths)


@dataclass(frozen=True)
class Images:
    """What towers made of the images of a step."""

    rows_N: Tensor  #: places of their tokens among the flattened tokens of the step, int64
    embeddings_ND: Tensor  #: that stand there instead of the table's rows
    taps: tuple[Tensor, ...] = ()  #: [N, D], added to the stream at those places: the first after the first layer, and so on


@dataclass(kw_only=True)
class Step:
    """One forward pass. Tokens are flattened: those of `decode` first, then those of `prefill`."""

    decode: Segment | None  #: sequences that go on by one token
    prefill: Segment | None  #: sequences (or chunks of them) that are read in
    outputs: Tensor  #: rows of the flattened tokens whose logits are wanted, int64
    images: Images | None = None  #: of its prefill tokens

    @cached_property
    def tokens_T(self) -> Tensor:
        """Ids of all tokens of the step, in its order."""
        segments = self.segments()
        return segments[0].tokens_T if len(segments) == 1 else torch.cat([segment.tokens_T for segment in segments])

    def segments(self) -> list[Segment]:
        """The phases that are present, in the order of their tokens."""
        return [segment for segment in (self.decode, self.prefill) if segment is not None]

    @property
    def tokens(self) -> int:
        """Tokens of the whole step."""
        return sum(segment.tokens_T.shape[0] for segment in self.segments())
