"""Tensors of a release, those of alike experts folded: half a million entries in a few arrays, and still one mapping from name to tensor."""

import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from day0.checkpoint.columns import Integers
from day0.spec.format import Stored, TensorHeader
from day0.spec.lazy import numpy as np

Value = TypeVar("Value")
LAST = re.compile(r"(.*\.)(0|[1-9]\d{0,17})(\..*)")
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def split(name: str) -> tuple[str, int, str] | None:
    """(before, number, after) for the last number between dots, where another one precedes it: that of an expert in a layer."""
    match = LAST.fullmatch(name)
    return (match[1], int(match[2]), match[3]) if match and NUMBER.search(match[1]) else None


class Rows(NamedTuple):
    """Tensors that are alike but for one number of their names, wherever they lie."""

    head: str  #: name before the number
    tail: str  #: name after it
    dtype: str  #: safetensors name
    shape: tuple[int, ...]  #: as stored
    bytes: int  #: of one tensor
    numbers: Integers  #: of each tensor
    files: Integers  #: of each, an index into the names of files
    starts: Integers  #: of each, its first byte

    @property
    def kind(self) -> tuple[object, ...]:
        """What they have in common."""
        return self[:5]

    def at(self, places: Integers) -> "Rows":
        """Some of them."""
        return self._replace(numbers=self.numbers[places], files=self.files[places], starts=self.starts[places])


class Bank:
    """Experts that are alike: their tensors have the same names but for one number, the same types and shapes."""

    def __init__(self, head: str, rows: Iterable[Rows], files: tuple[str, ...]) -> None:
        self.head, self.files = head, files  # what stands before the number; names of the files that the rows count
        self.columns = {some.tail: some for some in rows}  # what stands after the number → the tensors, by ascending numbers
        self.numbers = next(iter(self.columns.values())).numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def rows(self) -> dict[int, int]:
        """Number → its place among them."""
        return {number: row for row, number in enumerate(self.numbers.tolist())}

    def name(self, tail: str, row: int = 0) -> str:
        """Of a tensor of one expert."""
        return f"{self.head}{self.numbers[row]}{tail}"

    def tail(self, name: str) -> str:
        """What stands after the number in a name of the first expert."""
        return name.removeprefix(self.name(""))

    def header(self, tail: str, row: int = 0) -> TensorHeader:
        """One tensor."""
        some = self.columns[tail]
        start = int(some.starts[row])
        return TensorHeader(self.name(tail, row), some.dtype, some.shape, self.files[some.files[row]], start, start + some.bytes)

    def like(self, first: TensorHeader, row: int) -> TensorHeader:
        """The tensor that is to expert `row` what `first` is to the first."""
        return self.header(self.tail(first.name), row)

    def stored(self, sample: Stored, row: int) -> Stored:
        """The weight that is to expert `row` what `sample` is to the first."""
        parts = {part: self.like(header, row) for part, header in sample.parts.items()}
        return sample._replace(name=self.name(self.tail(sample.name), row), parts=parts)


class Folded(Mapping[str, Value], Generic[Value]):
    """A mapping whose values for experts of banks are made when they are asked for."""

    def __init__(self, singles: dict[str, Value], banks: list[tuple[Bank, dict[str, Value]]], make: Callable[[Bank, Value, int], Value]) -> None:
        self.singles, self.banks, self._make = singles, banks, make  # banks: with what follows the number → value of the first expert
        self._heads: dict[str, list[tuple[Bank, dict[str, Value]]]] = {}
        for bank, tails in banks:
            self._heads.setdefault(bank.head, []).append((bank, tails))

    def alike(self) -> Iterator[tuple[str, Value, int]]:
        """(name, value, how many are alike), the first of each kind."""
        yield from ((name, value, 1) for name, value in self.singles.items())
        for bank, tails in self.banks:
            yield from ((bank.name(tail), value, len(bank)) for tail, value in tails.items())

    def __getitem__(self, name: str) -> Value:
        if name in self.singles:
            return self.singles[name]
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return self._make(*found)

    def __contains__(self, name: object) -> bool:
        return name in self.singles or (isinstance(name, str) and self._find(name) is not None)

    def _find(self, name: str) -> tuple[Bank, Value, int] | None:
        head, number, tail = split(name) or ("", -1, "")
        for bank, tails in self._heads.get(head, ()):
            if tail in tails and number in bank.rows:
                return bank, tails[tail], bank.rows[number]
        return None

    def __iter__(self) -> Iterator[str]:
        yield from self.singles
        for bank, tails in self.banks:
            for number in bank.numbers.tolist():
                yield from (f"{bank.head}{number}{tail}" for tail in tails)

    def items(self) -> ItemsView[str, Value]:
        return Pairs(self)

    def values(self) -> ValuesView[Value]:
        return Values(self)

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """All names with their values; faster than asking for each."""
        yield from self.singles.items()
        for bank, tails in self.banks:
            for row, number in enumerate(bank.numbers.tolist()):
                yield from ((f"{bank.head}{number}{tail}", self._make(bank, value, row)) for tail, value in tails.items())

    def __len__(self) -> int:
        return len(self.singles) + sum(len(bank) * len(tails) for bank, tails in self.banks)


class Pairs(ItemsView[str, Value]):
    _mapping: Folded[Value]

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return self._mapping.pairs()


class Values(ValuesView[Value]):
    _mapping: Folded[Value]

    def __iter__(self) -> Iterator[Value]:
        return (value for _, value in self._mapping.pairs())


def alike(values: Mapping[str, Value]) -> Iterator[tuple[str, Value, int]]:
    """(name, value, how many are alike), the first of each kind; of a plain mapping every one."""
    return values.alike() if isinstance(values, Folded) else ((name, value, 1) for name, value in values.items())


def fold(files: tuple[str, ...], tensors: Iterable[TensorHeader], rows: Iterable[Rows]) -> Folded[TensorHeader] | None:
    """All tensors by name, in banks where they can be; None when two have one name."""
    singles: dict[str, TensorHeader] = {}
    groups: dict[str, dict[tuple[object, ...], list[Rows]]] = {}
    places = {file: place for place, file in enumerate(files)}
    for header in tensors:
        head, number, tail = split(header.name) or (header.name, -1, "")
        if number >= 0:
            numbers, file, start = (np.array([n]) for n in (number, places[header.file], header.start))
            _group(groups, Rows(head, tail, header.dtype, header.shape, header.bytes, numbers, file, start))
        elif singles.setdefault(header.name, header) is not header:
            return None
    for some in rows:
        _group(groups, some)
    banks = []
    for head, kinds in groups.items():
        joined = [_joined(members) for members in kinds.values()]
        if _twice(joined):
            return None
        for bank in _banks(head, joined, files):
            if len(bank) > 1:
                banks.append(bank)
            else:
                singles |= {bank.name(tail): bank.header(tail) for tail in bank.columns}
    return folded(singles, banks)


def folded(singles: dict[str, TensorHeader], banks: Iterable[Bank]) -> Folded[TensorHeader]:
    """Tensors by name, those of banks among them."""
    return Folded(singles, [(bank, {tail: bank.header(tail) for tail in bank.columns}) for bank in banks], Bank.like)


def _group(groups: dict[str, dict[tuple[object, ...], list[Rows]]], rows: Rows) -> None:
    groups.setdefault(rows.head, {}).setdefault(rows.kind, []).append(rows)


def _joined(members: list[Rows]) -> Rows:
    """All of one kind, by ascending numbers."""
    numbers, files, starts = (np.concatenate(parts) for parts in zip(*(rows[5:] for rows in members), strict=True))
    return members[0]._replace(numbers=numbers, files=files, starts=starts).at(np.argsort(numbers, kind="stable"))


def _twice(joined: list[Rows]) -> bool:
    """Whether a name is there twice."""
    tails: dict[str, list[Integers]] = {}
    for rows in joined:
        tails.setdefault(rows.tail, []).append(rows.numbers)
    ordered = (same[0] if len(same) == 1 else np.sort(np.concatenate(same)) for same in tails.values())
    return any((numbers[1:] == numbers[:-1]).any() for numbers in ordered)


def _banks(head: str, joined: list[Rows], files: tuple[str, ...]) -> Iterator[Bank]:
    """Numbers that have tensors of the same kinds, together."""
    if all(np.array_equal(rows.numbers, joined[0].numbers) for rows in joined):
        yield Bank(head, joined, files)
        return
    numbers = np.unique(np.concatenate([rows.numbers for rows in joined]))
    held = np.array([np.isin(numbers, rows.numbers, assume_unique=True) for rows in joined])
    for has in np.unique(held, axis=1).T:
        members = numbers[(held == has[:, None]).all(axis=0)]
        yield Bank(head, [joined[place].at(np.searchsorted(joined[place].numbers, members)) for place in np.flatnonzero(has)], files)
