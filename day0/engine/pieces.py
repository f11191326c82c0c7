"""What one weight of the model is read from, alike experts as one."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from day0.checkpoint.banks import Bank, Folded
from day0.spec.format import Stored
from day0.spec.lazy import numpy as np
from day0.spec.names import Piece

Match = Callable[[str], list[tuple[str, Piece]] | None]


class Weights(NamedTuple):
    """One checkpoint weight, or the alike ones of some experts of a bank."""

    first: Stored  #: the first of them
    bank: Bank | None = None  #: None when there is one
    sample: Stored | None = None  #: the weight of the bank's first expert
    rows: Sequence[int] = (0,)  #: which experts of the bank
    numbers: Sequence[int] = ()  #: of those experts

    def each(self) -> Iterator[Stored]:
        """One by one."""
        if self.bank is None or self.sample is None:
            return iter((self.first,))
        bank, sample = self.bank, self.sample
        return (bank.stored(sample, row) for row in self.rows)

    def names(self) -> Iterator[str]:
        """Their checkpoint names."""
        if self.bank is None or self.sample is None:
            return iter((self.first.name,))
        bank, tail = self.bank, self.bank.tail(self.sample.name)
        return (bank.name(tail, row) for row in self.rows)

    def by_expert(self, match: Match) -> Iterator["Weights"]:
        """Together where `match` finds in each the same of another expert, which the first two show; else one by one."""
        pairs = zip(self.numbers, self.names(), strict=True) if self.bank else iter(())
        shown = {tuple((target, piece.cut, piece.expert == number) for target, piece in match(name) or ()) for number, name in islice(pairs, 2)}
        if self.bank is None or (len(shown) == 1 and all(own for *_, own in next(iter(shown)))):
            yield self
        else:
            yield from map(Weights, self.each())


def weights(stored: Mapping[str, Stored], apart: Collection[int]) -> Iterator[Weights]:
    """All weights: those of alike experts together, but for experts whose number is one of `apart`."""
    if not isinstance(stored, Folded):
        yield from map(Weights, stored.values())
        return
    yield from map(Weights, stored.singles.values())
    for bank, tails in stored.banks:
        alone = np.isin(bank.numbers, [*apart])
        others, rows, numbers = np.flatnonzero(alone).tolist(), np.flatnonzero(~alone).tolist(), bank.numbers[~alone].tolist()
        for sample in tails.values():
            yield from (Weights(bank.stored(sample, row)) for row in others)
            if rows:
                yield Weights(bank.stored(sample, rows[0]), bank, sample, rows, numbers)


class Source(NamedTuple):
    """What the model takes from each of some checkpoint weights."""

    piece: Piece  #: of the first
    weights: Weights  #: each from an expert of its own, where there are several

    @property
    def experts(self) -> list[int | None]:
        """Places on the stacked axis."""
        return [*self.weights.numbers] if self.weights.bank else [self.piece.expert]

    def each(self) -> Iterator[tuple[Piece, Stored]]:
        """One by one."""
        for expert, stored in zip(self.experts, self.weights.each(), strict=True):
            yield replace(self.piece, source=stored.name, expert=expert), stored


class Pieces(Sequence[tuple[Piece, Stored]]):
    """The pieces of one weight in order: those of experts by their places, those of one expert by their parts."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sorted(sources, key=lambda source: _order(source.piece))

    @cached_property
    def _all(self) -> tuple[tuple[Piece, Stored], ...]:
        return tuple(sorted((piece for source in self.sources for piece in source.each()), key=lambda piece: _order(piece[0])))

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int) and place == 0:
            return self.sources[0].piece, self.sources[0].weights.first
        return self._all[place]

    def __iter__(self) -> Iterator[tuple[Piece, Stored]]:
        return iter(self._all)

    def __len__(self) -> int:
        return sum(len(source.weights.rows) for source in self.sources)

    def alike(self) -> list[tuple[Stored, int]]:
        """(weight, how many are alike), the first of each kind."""
        return [(source.weights.first, len(source.weights.rows)) for source in self.sources]

    def experts(self) -> list[int | None]:
        """Places on the stacked axis; in order, where all have one."""
        found = [expert for source in self.sources for expert in source.experts]
        known = [expert for expert in found if expert is not None]
        return [*sorted(known)] if len(known) == len(found) else found


def _order(piece: Piece) -> tuple[int, int]:
    return piece.expert or 0, piece.cut.part if piece.cut else 0
