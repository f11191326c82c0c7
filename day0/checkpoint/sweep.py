"""The heads of many shards at once. Sound entries, which repeat one another, are read as columns; all else is left to the close look."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from day0.checkpoint.banks import Rows
from day0.checkpoint.columns import ZEROS, Alike, Integers, Span, classes, expert
from day0.checkpoint.headers import Head, Shard, bytes_of, read_head
from day0.checkpoint.source import Source
from day0.spec.format import TensorHeader
from day0.spec.lazy import numpy as np

BATCH = 8 << 20  # bytes of headers that are read together
AHEAD = 16  # heads that are read before they are looked at
LONGEST = 4096  # bytes of an entry
FEW = 1000  # kinds of entries that are worth a look each
ENTRY = re.compile(rb'([^"]*)" *: *\{ *"dtype" *: *"(\w+)" *, *"shape" *: *(\[[\d, ]*\]) *, *"data_offsets" *: *\[ *(\d+) *, *(\d+) *\] *')


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
    numbers: Integers  #: of the experts; empty where there is no number
    starts: Integers  #: from the start of the data


class _Plain(NamedTuple):
    """A header without escapes, cut into its entries."""

    place: int  #: of the file
    head: Head
    entries: list[bytes]  #: without the first quotation mark and the last brace
    skeletons: list[bytes]  #: entries with zeros for digits


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
    entries, skeletons = (_cut(text) for text in (raw, raw.translate(ZEROS)))
    if entries[0].startswith(b"__metadata__"):
        if not _strings(entries[0]):
            return None
        del entries[0], skeletons[0]
    return _Plain(place, head, entries, skeletons) if entries and max(map(len, entries)) <= LONGEST else None


def _cut(raw: bytes) -> list[bytes]:
    entries = (raw.replace(b'}, "', b'},"') if b'}, "' in raw[:LONGEST] else raw).split(b'},"')
    entries[0] = entries[0][2:]
    entries[-1] = entries[-1][:-2]
    return entries


def _strings(metadata: bytes) -> bool:
    """Whether it is an object of strings, each name once."""
    try:
        data = json.loads(b'{"' + metadata + b"}}")["__metadata__"]
    except (ValueError, KeyError, RecursionError):
        return False
    return isinstance(data, dict) and all(isinstance(value, str) for value in data.values()) and metadata.count(b'"') == 4 * len(data) + 1


def _read(batch: list[_Plain], found: Swept) -> None:
    """Add what is sound in a batch of headers."""
    entries = list(chain.from_iterable(one.entries for one in batch))
    owner = np.repeat(np.arange(len(batch)), [len(one.entries) for one in batch])
    begin, end = np.full(len(owner), -1), np.full(len(owner), -1)
    groups = classes(chain.from_iterable(one.skeletons for one in batch))
    read = [some for places in groups for some in _look(Alike(entries, places))] if len(groups) < max(FEW, len(entries) // 4) else []
    for some in read:
        begin[some.entries], end[some.entries] = some.starts, some.starts + some.bytes
    sound = _sound(owner, begin, end, np.array([one.head.size - one.head.base for one in batch]))
    for one, good in zip(batch, sound, strict=True):
        if good:
            head, count = one.head, len(one.entries)
            found.shards[head.file] = Shard(
                file=head.file, size=head.size, digest=head.digest, count=count, refused=frozenset(), readable=True, findings=()
            )
    base, place = np.array([one.head.base for one in batch]), np.array([one.place for one in batch])
    files = [one.head.file for one in batch]
    for some in read:
        good = sound[owner[some.entries]]
        mine = owner[some.entries[good]]
        if not len(mine):
            continue
        starts = some.starts[good] + base[mine]
        if some.number:
            before, after = some.name[: some.number[0]].decode(), some.name[some.number[1] :].decode()
            found.rows.append(Rows(before, after, some.dtype, some.shape, some.bytes, some.numbers[good], place[mine], starts))
        else:
            name, kind = some.name.decode(), (some.dtype, some.shape)
            spots = zip(mine.tolist(), starts.tolist(), strict=True)
            found.tensors.extend(TensorHeader(name, *kind, files[file], start, start + some.bytes) for file, start in spots)


def _look(alike: Alike) -> Iterator[_Some]:
    """Nothing when an entry may be untrue in itself."""
    match = ENTRY.fullmatch(alike.sample)
    if not match or match[1] == b"__metadata__" or not match[1].decode().isprintable():
        return
    if not alike.plain(match.span(4)) or not alike.plain(match.span(5)):
        return
    number = expert(match[1])
    number = number if number and alike.plain(number) else None
    begin, end = alike.numbers(match.span(4)), alike.numbers(match.span(5))
    numbers = alike.numbers(number) if number else begin[:0]
    inside = (match.span(4), match.span(5), *([number] if number else []))
    kinds = []
    for sample, members in alike.split(*inside):
        first = ENTRY.fullmatch(sample)
        assert first, sample
        dtype, shape = first[2].decode(), _shape(first[3])
        size = bytes_of(dtype, shape) if shape is not None else None
        if shape is None or size is None or (end[members] - begin[members] != size).any():
            return
        mine = numbers[members] if number else numbers
        kinds.append(_Some(first[1], number, dtype, shape, size, alike.places[members], mine, begin[members]))
    yield from kinds


@lru_cache(4096)
def _shape(text: bytes) -> tuple[int, ...] | None:
    try:
        return tuple(json.loads(text))
    except ValueError:
        return None


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
