"""The weight map of an index at one sight: as columns where its text is plain. Half a million names are not kept one by one."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from day0.checkpoint.banks import Folded, Rows, fold
from day0.checkpoint.columns import EXACT, WORD, Alike, Integers, alike, expert
from day0.spec.format import TensorHeader
from day0.spec.lazy import numpy as np

BATCH = 4 << 20  # bytes of text that are read together
NEAR = 4096  # bytes in which the map starts
BEFORE = re.compile(rb'\s*\{[^\[\]]*?"weight_map"\s*:\s*\{\s*"')
BETWEEN = re.compile(rb'",\s*"')
AFTER = re.compile(rb'"\s*\}\s*\}\s*')
ENTRY = re.compile(rb'([^"]*)" *: *"([^"]*)')
DIGITS = re.compile(rb"\d+")


class Directory(Mapping[str, str]):
    """Tensor → file name."""

    def __init__(self, places: Folded[TensorHeader], files: tuple[str, ...]) -> None:
        self._places, self.files = places, files

    def __getitem__(self, name: str) -> str:
        return self._places[name].file

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def agrees(self, headers: Mapping[str, TensorHeader]) -> bool:
        """Whether each tensor is in the file that is said here, and there are no others. False also where it would take long to say."""
        if not isinstance(headers, Folded) or len(headers) != len(self) or len(headers.banks) != len(self._places.banks):
            return False
        if any(name not in self._places.singles or self._places.singles[name].file != one.file for name, one in headers.singles.items()):
            return False
        said = {(bank.head, int(bank.numbers[0])): bank for bank, _ in self._places.banks}
        for bank, _ in headers.banks:
            other = said.get((bank.head, int(bank.numbers[0])))
            if other is None or other.files != bank.files or other.columns.keys() != bank.columns.keys():
                return False
            if not np.array_equal(other.numbers, bank.numbers):
                return False
            if any(not np.array_equal(other.columns[tail].files, bank.columns[tail].files) for tail in bank.columns):
                return False
        return True


def read(text: bytes) -> tuple[Directory, dict[str, Any]] | None:
    """(the map, the rest of the index); None where the text is not plain: whoever asks then parses it as JSON."""
    start, last = BEFORE.match(text[:NEAR]), text.rfind(b'"')
    if not start or last < start.end() or not AFTER.fullmatch(text, last) or b"\\" in text or not text.isascii():
        return None
    try:
        rest = json.loads(text[: start.end() - 1] + text[last + 1 :])
    except (ValueError, RecursionError):
        return None
    between = BETWEEN.search(text, start.end(), last)
    reader = _Reader()
    parts = between[0] if between else b'","'
    for part, size in _parts(text, start.end(), last, parts):
        cut = _cut(part, size, parts)
        groups = alike(part, *cut) if cut else None
        if groups is None or not all(map(reader.look, groups)):
            return None
    found = reader.directory()
    return (found, rest) if found and rest.get("weight_map") == {} else None


def _parts(text: bytes, start: int, last: int, between: bytes) -> Iterator[tuple[bytes, int]]:
    """(text, how many bytes of it are some of the map without its outer quotation marks)"""
    while start < last:
        stop = text.find(between, min(start + BATCH, last), last)
        stop = stop if stop >= 0 else last
        yield text[start : stop + WORD].ljust(stop - start + WORD), stop - start
        start = stop + len(between)


def _cut(part: bytes, size: int, between: bytes) -> tuple[Integers, Integers] | None:
    """(where entries start, where they stop), each `name": "file`; None where it is not so."""
    characters = np.frombuffer(part, np.uint8)
    marks = np.flatnonzero(characters[:size] == ord('"'))
    if len(marks) % 4 != 2:
        return None
    stops, starts = marks[2::4], marks[3::4] + 1
    found = np.lib.stride_tricks.sliding_window_view(characters, len(between))[stops]
    if (starts - stops != len(between)).any() or (found != np.frombuffer(between, np.uint8)).any():
        return None
    return np.append(0, starts), np.append(stops, size)


class _Reader:
    def __init__(self) -> None:
        self.files: dict[str, int] = {}  # in the order in which they are met
        self.singles: list[tuple[str, str]] = []
        self.rows: list[Rows] = []

    def look(self, alike: Alike) -> bool:
        """Whether the entries could be read."""
        match = ENTRY.fullmatch(alike.sample)
        if not match or not alike.sample.decode().isprintable():
            return False
        digits = [span.span() for span in DIGITS.finditer(alike.sample, match.start(2))]
        if sum(stop - start for start, stop in digits) > EXACT:
            return False
        key = np.zeros(len(alike.places), np.int64)
        for start, stop in digits:
            key = key * 10 ** (stop - start) + alike.numbers((start, stop))
        runs = np.append(0, np.flatnonzero(np.diff(key)) + 1)  # neighbours are often of one file
        _, firsts, file = np.unique(key[runs], return_index=True, return_inverse=True)
        file = np.repeat(file, np.diff(runs, append=len(key)))
        names = [alike.text(first)[match.start(2) :].decode() for first in runs[firsts].tolist()]
        files = np.array([self.files.setdefault(name, len(self.files)) for name in names])[file]
        number = expert(match[1])
        number = number if number and alike.plain(number) else None
        numbers = alike.numbers(number) if number else key
        for sample, members in alike.split(*digits, *([number] if number else [])):
            name = sample[: match.end(1)]
            if number:
                before, after = name[: number[0]].decode(), name[number[1] :].decode()
                self.rows.append(Rows(before, after, "", (), 0, numbers[members], files[members], numbers[members] * 0))
            else:
                self.singles.extend((name.decode(), names[place]) for place in file[members].tolist())
        return True

    def directory(self) -> Directory | None:
        """None when a name is there twice."""
        files = tuple(sorted(self.files))
        place = np.array([files.index(name) for name in self.files])
        tensors = (TensorHeader(name, "", (), file, 0, 0) for name, file in self.singles)
        found = fold(files, tensors, (rows._replace(files=place[rows.files]) for rows in self.rows))
        return Directory(found, files) if found else None
