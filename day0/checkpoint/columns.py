"""Entries of JSON that are equal but for their digits, read as columns: half a million of them without an object for each."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from day0.spec.lazy import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
else:
    Integers = Any

ZEROS = bytes.maketrans(b"123456789", b"000000000")
NUMBER = re.compile(rb"(?<=\.)\d+(?=\.)")
EXACT = 18  # decimal digits that an int64 holds
ROOM = 12  # digits that fit behind a number of entries
Span = tuple[int, int]


class Alike:
    """Entries of one length that differ in digits alone."""

    def __init__(self, entries: Sequence[bytes], places: Integers) -> None:
        self.places = places  # of these entries among all
        self._texts = [entries[place] for place in places.tolist()]
        self.sample = self._texts[0]
        rows = np.frombuffer(b"".join(self._texts), np.uint8).reshape(len(places), -1)
        columns = [column for column, byte in enumerate(self.sample) if 48 <= byte <= 57]
        self._digits = rows.T[columns] - 48
        self._rows = {column: row for row, column in enumerate(columns)}  # column of the text → row of the digits

    def text(self, which: int) -> bytes:
        """One of them."""
        return self._texts[which]

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
            yield self._texts[members[0]], members


def classes(skeletons: Iterable[bytes]) -> list[Integers]:
    """Places of equal ones. A skeleton is an entry with zeros for its digits."""
    seen: dict[bytes, int] = {}
    kind = np.fromiter(map(seen.setdefault, skeletons, count()), np.int64)
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)


def expert(name: bytes) -> Span | None:
    """Where a name has the number that `banks.split` finds, if not for leading zeros."""
    spans = [match.span() for match in NUMBER.finditer(name)]
    return spans[-1] if len(spans) > 1 else None
