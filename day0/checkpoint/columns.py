"""Entries of JSON that are equal but for their digits, read as columns: half a million of them without an object for each."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from day0.spec.lazy import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Characters = NDArray[np.uint8]
else:
    Integers = Characters = Any

NUMBER = re.compile(rb"(?<=\.)\d+(?=\.)")
LONGEST = 4096  # bytes of an entry
WORD = 8  # bytes that are compared at once
ODD = 0x9E3779B97F4A7C15  # of the golden ratio: its powers spread words over sums
FEW = 1000  # kinds of entries that are worth a look each
EXACT = 18  # decimal digits that an int64 holds
ROOM = 12  # digits that fit behind a number of entries
Span = tuple[int, int]


class Alike:
    """Entries of one length that differ in digits alone."""

    def __init__(self, places: Integers, rows: Characters, length: int) -> None:
        self.places = places  # of these entries among all
        self._characters = rows  # of each entry, then something else up to a whole word
        self.sample = rows[0, :length].tobytes()

    @cached_property
    def _rows(self) -> dict[int, int]:
        """Column of the text → row of the digits."""
        return {column: row for row, column in enumerate(column for column, byte in enumerate(self.sample) if 48 <= byte <= 57)}

    @cached_property
    def _digits(self) -> Characters:
        return self._characters.T[[*self._rows]] - 48

    def text(self, which: int) -> bytes:
        """One of them."""
        return self._characters[which, : len(self.sample)].tobytes()

    def plain(self, span: Span) -> bool:
        """Whether the number at `span` is one that an int64 holds, and written without leading zeros in every entry."""
        length = span[1] - span[0]
        return length <= EXACT and (length == 1 or bool(self._digits[self._rows[span[0]]].all()))

    def numbers(self, span: Span) -> Integers:
        """The number at `span`, which is `plain`, of each entry."""
        first = self._rows[span[0]]
        found = np.zeros(len(self.places), np.int64)
        for row in self._digits[first : first + span[1] - span[0]]:
            found *= 10
            found += row
        return found

    def split(self, *spans: Span) -> Iterator[tuple[bytes, Integers]]:
        """(the first of them, which of these entries) for entries that are equal outside of `spans`."""
        inside = {column for span in spans for column in range(*span)}
        outside = self._digits[[row for column, row in self._rows.items() if column not in inside]]
        varying = outside[(outside != outside[:, :1]).any(axis=1)]
        if not len(varying):
            yield self.sample, np.arange(len(self.places))
            return
        key = np.zeros(len(self.places), np.int64)
        for place, row in enumerate(varying):
            key = (np.unique(key, return_inverse=True)[1] if place % ROOM == ROOM - 1 else key) * 10 + row
        order = np.argsort(key, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
            yield self.text(members[0]), members


def alike(text: bytes, starts: Integers, stops: Integers) -> list[Alike] | None:
    """All entries of a text of ASCII in its order, those together that differ in digits alone; None where they hardly repeat one another.

    The text goes on for `WORD` bytes behind the last of them.
    """
    lengths = stops - starts
    if not len(starts) or lengths.min() < 1 or lengths.max() > LONGEST:
        return None
    order = np.argsort(lengths.astype(np.uint16), kind="stable")
    characters, found = np.frombuffer(text, np.uint8), list[Alike]()
    powers = np.cumprod(np.full(-(-int(lengths.max()) // WORD), ODD, np.uint64))
    for places in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = int(lengths[places[0]])
        width = -(-length // WORD) * WORD
        rows = np.lib.stride_tricks.sliding_window_view(characters, width)[starts[places]]
        digits = np.less(rows ^ 48, 10).view(np.uint8)
        words = np.bitwise_or(rows, np.negative(digits, out=digits), out=digits).view(np.uint64)  # 255 for digits
        words[:, -1] &= np.uint64((1 << 8 * (length - width + WORD)) - 1)
        sums = words @ powers[: width // WORD]
        ordered = np.argsort(sums, kind="stable")
        groups = np.split(ordered, np.flatnonzero(np.diff(sums[ordered])) + 1)
        if len(found) + len(groups) >= max(FEW, len(starts) // 4) or any((words[group] != words[group[0]]).any() for group in groups):
            return None
        found.extend(Alike(places[group], rows[group], length) for group in groups)
    return sorted(found, key=lambda some: int(some.places[0]))


def expert(name: bytes) -> Span | None:
    """Where a name has the number that `banks.split` finds, if not for leading zeros."""
    spans = [match.span() for match in NUMBER.finditer(name)]
    return spans[-1] if len(spans) > 1 else None
