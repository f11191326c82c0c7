"""The heads of many shards at once. Sound entries, which repeat one another, are read as columns; all else is left to the close look."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from day0.checkpoint.banks import Rows
from day0.checkpoint.columns import WORD, Alike, Integers, Span, alike, expert
from day0.checkpoint.headers import Head, Shard, bytes_of, read_head
from day0.checkpoint.source import Source
from day0.spec.format import TensorHeader
from day0.spec.lazy import numpy as np

BATCH = 4 << 20  # bytes of headers that are read together
AHEAD = 16  # heads that are read before they are looked at
NEAR = 4096  # bytes in which the first two entries tell how entries are parted
ENTRY = re.compile(rb'([^"]*)" *: *\{ *"dtype" *: *"(\w+)" *, *"shape" *: *(\[[\d, ]*\]) *, *"data_offsets" *: *')
OFFSETS = re.compile(rb"\[ *(\d+) *, *(\d+) *\] *")


class Swept(NamedTuple):
    """What is sound at first sight."""

    shards: dict[str, Shard]  #: by file
    tensors: list[TensorHeader]  #: without the number of an expert
    rows: list[Rows]  #: of experts


class _Some(NamedTuple):
    """Entries of a batch that are alike but for the number of an expert and their places."""

    name: bytes  #: of the first
    number: Span | None  #: where the name has the number
    dtype: str
    shape: tuple[int, ...]
    bytes: int  #: of one tensor
    entries: Integers  #: which entries of the batch
    numbers: Integers  #: of the experts; of the entries where there is no number

    def where(self, good: Integers) -> "_Some":
        """Some of them."""
        return self._replace(entries=self.entries[good], numbers=self.numbers[good])


class _Plain(NamedTuple):
    """A header without escapes, cut into its entries: each from behind its first quotation mark to before its last brace."""

    place: int  #: of the file
    head: Head
    starts: Integers  #: of the entries in the header
    middles: Integers  #: of each, where the offsets begin
    stops: Integers  #: of each


def sweep(source: Source | Path, files: tuple[str, ...]) -> Swept:
    """Read all heads; a file in which anything is unusual is left out of the result."""
    found = Swept({}, [], [])
    batch: list[_Plain] = []
    for place, head in enumerate(_ahead(source, files)):
        plain = _plain(place, head) if head else None
        if plain:
            batch.append(plain)
        if sum(len(one.head.raw) for one in batch) > BATCH:
            _read(batch, found)
            batch = []
    if batch:
        _read(batch, found)
    return found


def _ahead(source: Source | Path, files: Iterable[str]) -> Iterator[Head | None]:
    """Heads in order; the next few are read and digested while one is looked at."""
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[Future[Head | None]] = deque()
        for file in files:
            waiting.append(pool.submit(read_head, source, file))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()


def _plain(place: int, head: Head) -> _Plain | None:
    raw = head.raw.rstrip(b" ")
    if not raw.isascii() or b"\\" in raw or b"\n" in raw or not raw.startswith(b'{"') or not raw.endswith(b"}}"):
        return None
    starts, stops = _cut(raw)
    if raw.startswith(b'{"__metadata__'):
        if not _strings(raw[starts[0] : stops[0]]):
            return None
        starts, stops = starts[1:], stops[1:]
    middles = np.flatnonzero(np.frombuffer(raw, np.uint8) == ord("["))
    middles = middles[np.searchsorted(middles, starts[:1].sum()) + 1 :: 2]
    if not len(starts) or len(middles) != len(starts) or (middles < starts).any() or (middles > stops).any():
        return None
    return _Plain(place, head, starts, middles, stops)


def _cut(raw: bytes) -> tuple[Integers, Integers]:
    """(where entries start, where they stop)"""
    between = b'}, "' if b'}, "' in raw[:NEAR] else b'},"'
    characters = np.frombuffer(raw, np.uint8)
    braces = np.flatnonzero(characters == between[0])[:-2]
    for place, character in enumerate(between[1:], 1):
        braces = braces[characters[np.minimum(braces + place, len(raw) - 1)] == character]
    return np.append(2, braces + len(between)), np.append(braces, len(raw) - 2)


def _strings(metadata: bytes) -> bool:
    """Whether it is an object of strings, each name once."""
    try:
        data = json.loads(b'{"' + metadata + b"}}")["__metadata__"]
    except (ValueError, KeyError, RecursionError):
        return False
    return isinstance(data, dict) and all(isinstance(value, str) for value in data.values()) and metadata.count(b'"') == 4 * len(data) + 1


def _read(batch: list[_Plain], found: Swept) -> None:
    """Add what is sound in a batch of headers."""
    owner = np.repeat(np.arange(len(batch)), [len(one.starts) for one in batch])
    begin, end = np.full(len(owner), -1), np.full(len(owner), -1)
    text, edges = b"".join([*(one.head.raw for one in batch), bytes(WORD)]), np.cumsum([0, *(len(one.head.raw) for one in batch[:-1])])[owner]
    starts, middles, stops = (np.concatenate([one[place] for one in batch]) + edges for place in (2, 3, 4))
    for group in alike(text, middles, stops) or ():
        match = OFFSETS.fullmatch(group.sample)
        if match and group.plain(match.span(1)) and group.plain(match.span(2)):
            begin[group.places], end[group.places] = group.numbers(match.span(1)), group.numbers(match.span(2))
    read = [some for group in alike(text, starts, middles) or () for some in _look(group, end - begin)]
    known = np.zeros(len(owner), bool)
    for some in read:
        known[some.entries] = True
    begin[~known] = -1
    sound = _sound(owner, begin, end, np.array([one.head.size - one.head.base for one in batch]))
    for head, count in ((one.head, len(one.starts)) for one, good in zip(batch, sound, strict=True) if good):
        found.shards[head.file] = Shard(
            file=head.file, size=head.size, digest=head.digest, count=count, refused=frozenset(), readable=True, findings=()
        )
    if not sound.all():
        read = [some for some in (some.where(sound[owner[some.entries]]) for some in read) if len(some.entries)]
    begin += np.array([one.head.base for one in batch])[owner]
    _add(read, begin, np.array([one.place for one in batch])[owner], {one.place: one.head.file for one in batch}, found)


def _add(read: list[_Some], starts: Integers, places: Integers, files: dict[int, str], found: Swept) -> None:
    """Starts and places of the files are those of all entries of the batch."""
    for some in read:
        mine = some.entries
        if some.number:
            before, after = some.name[: some.number[0]].decode(), some.name[some.number[1] :].decode()
            found.rows.append(Rows(before, after, some.dtype, some.shape, some.bytes, some.numbers, places[mine], starts[mine]))
        else:
            name, kind = some.name.decode(), (some.dtype, some.shape)
            spots = zip(places[mine].tolist(), starts[mine].tolist(), strict=True)
            found.tensors.extend(TensorHeader(name, *kind, files[place], start, start + some.bytes) for place, start in spots)


def _look(alike: Alike, sizes: Integers) -> Iterator[_Some]:
    """Those whose offsets in the data differ by as many bytes as their types and shapes say."""
    match = ENTRY.fullmatch(alike.sample)
    if not match or match[1] == b"__metadata__" or not match[1].decode().isprintable():
        return
    number = expert(match[1])
    number = number if number and alike.plain(number) else None
    numbers = alike.numbers(number) if number else alike.places
    for sample, members in alike.split(*([number] if number else [])):
        one = ENTRY.fullmatch(sample)
        assert one, sample
        (shape, size), entries = _kind(one[2], one[3]), alike.places[members]
        if size is not None and (sizes[entries] == size).all():
            yield _Some(one[1], number, one[2].decode(), shape, size, entries, numbers[members])


@lru_cache(4096)
def _kind(dtype: bytes, text: bytes) -> tuple[tuple[int, ...], int | None]:
    """(shape, bytes of a tensor); None for what cannot be."""
    try:
        shape = tuple(json.loads(text))
    except ValueError:
        return (), None
    return shape, bytes_of(dtype.decode(), shape)


def _sound(owner: Integers, begin: Integers, end: Integers, data: Integers) -> Integers:
    """Whether the tensors of each file fill its data without hole, overlap or rest."""
    order = np.lexsort((end, begin, owner))
    owner, begin, end = owner[order], begin[order], end[order]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    expected = np.concatenate(([0], end[:-1]))
    expected[first] = 0
    last = np.append(first[1:], len(owner)) - 1
    good = end[last] == data
    good[owner[begin != expected]] = False
    return good
