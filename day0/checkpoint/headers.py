"""Heads of safetensors files: what a shard says about its tensors, and whether that can be true.

Layout (github.com/huggingface/safetensors, "Format"): 8 bytes of length, little-endian; that many bytes of JSON, padded with spaces;
data without holes. A shard is hostile input: whatever is wrong becomes a finding, nothing is raised.
"""

import hashlib
import json
from collections import Counter
from math import prod
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from day0.checkpoint.ledger import Ledger
from day0.checkpoint.pointer import PULL, START, UNFETCHED, is_pointer, words
from day0.checkpoint.source import Source, at
from day0.spec.dtype import BITS
from day0.spec.finding import Finding
from day0.spec.format import TensorHeader
from day0.spec.record import record

LIMIT = 100_000_000  # bytes of a header; strict readers refuse more
RANK = 16  # axes of a tensor
DAMAGED = "download the shard again"
WRITER = "the writer of this file is at fault; ask for another copy, or write the shard again with safetensors"


@record
class Shard:
    """What the head of one file says."""

    file: str  #: name, relative to the folder
    size: int  #: bytes of the file
    digest: str  #: sha256 of length and header; "" when they could not be read
    count: int  #: tensors whose entry can be true
    refused: frozenset[str]  #: names whose entry cannot be true
    readable: bool  #: whether there was a header at all
    findings: tuple[Finding, ...]  #: what is wrong


@record
class Opened(Shard):
    """A shard with its tensors."""

    tensors: dict[str, TensorHeader]  #: those whose entry can be true


class Head(NamedTuple):
    """The head of a file, unread."""

    file: str  #: name, relative to the folder
    size: int  #: bytes of the file
    base: int  #: where the data begins
    raw: bytes  #: the header
    digest: str  #: sha256 of length and header


class Unsound(Exception):
    """A header, or an entry of it, that cannot be used; never leaves this file."""

    def __init__(self, code: str, *, expected: str, found: str, hint: str = DAMAGED) -> None:
        super().__init__(found)
        self.code, self.expected, self.found, self.hint = code, expected, found, hint


def read_head(source: Source | Path, file: str) -> Head | None:
    """The head of one file; None when it has none."""
    reader = _Reader(file)
    try:
        raw = reader.head(at(source))
    except (Unsound, OSError):
        return None
    return Head(file, reader.size, reader.base, raw, _digest(raw))


def read_shard(source: Source | Path, file: str) -> Opened:
    """Read the head of one file, in two reads: length and header."""
    reader, raw, readable = _Reader(file), b"", False
    try:
        raw = reader.head(at(source))
        entries = reader.parse(raw)
        readable = True
        reader.examine_all(entries)
        reader.lay_out()
    except Unsound as error:
        reader.ledger.fail(error.code, file, expected=error.expected, found=error.found, hint=error.hint)
    except OSError as error:
        reader.ledger.fail("D0101", file, found=f"cannot be read: {error.strerror}", hint="check the file and its permissions")
    return Opened(
        file=file,
        size=reader.size,
        digest=_digest(raw) if raw else "",
        count=len(reader.tensors),
        tensors=reader.tensors,
        refused=frozenset(reader.refused),
        readable=readable,
        findings=tuple(reader.ledger.findings()),
    )


def _digest(raw: bytes) -> str:
    digest = hashlib.sha256(len(raw).to_bytes(8, "little"))
    digest.update(raw)
    return digest.hexdigest()


class _Reader:
    """One pass over one header: a light test that sound entries pass, and a close look at those that do not."""

    def __init__(self, file: str) -> None:
        self.file, self.size, self.base = file, 0, 0  # base: where the data begins
        self.ledger = Ledger()
        self.tensors: dict[str, TensorHeader] = {}
        self.refused: set[str] = set()
        self.sizes: dict[tuple[Any, ...], tuple[int, tuple[int, ...]]] = {}  # (dtype, *shape) → bytes, shape

    def head(self, source: Source) -> bytes:
        """Bytes of the header."""
        size = source.size(self.file)
        if size is None:
            raise Unsound("D0101", expected="a file", found="something that is not a regular file")
        self.size = size
        start = source.read(self.file, 0, 8)
        length = int.from_bytes(start, "little")
        if len(start) < 8:
            raise Unsound("D0101", expected="8 bytes of header length", found=f"the file has {size} bytes")
        if length == 0:
            found = "header length is 0: the head of the file is zero-filled, this copy is damaged"
            raise Unsound("D0101", expected="a header", found=found)
        if length > min(LIMIT, size - 8):
            self._refuse_text(source.read(self.file, 0, START))
            expected = f"at most {min(LIMIT, size - 8)} bytes of header"
            raise Unsound("D0102", expected=expected, found=f"header length {length} in a file of {size} bytes")
        self.base = 8 + length
        return source.read(self.file, 8, length)

    def _refuse_text(self, start: bytes) -> None:
        """Say what stands in the place of the shard."""
        if is_pointer(start):
            raise Unsound("D0101", expected="a header", found=UNFETCHED, hint=PULL)
        if text := words(start):
            raise Unsound("D0101", expected="a header", found=f"text: {text}")

    def parse(self, raw: bytes) -> dict[str, Any]:
        """Entries by name, without the metadata."""
        text = raw.rstrip(b"\0")
        if not text:
            raise Unsound("D0101", expected="a header", found="the header is zero-filled, this copy is damaged")
        if len(text) < len(raw):
            found = f"header padded with {len(raw) - len(text)} NUL bytes; strict readers will refuse this file"
            self.ledger.fail("D0105", self.file, expected="spaces", found=found, hint=WRITER)
        try:
            entries = json.loads(text.decode(), parse_float=_no_float, parse_constant=_no_float)
        except (ValueError, RecursionError) as error:
            raise Unsound("D0103", expected="a JSON object", found=f"not a header: {error}"[:200]) from None
        if not isinstance(entries, dict):
            raise Unsound("D0103", expected="a JSON object", found=f"a JSON {type(entries).__name__}")
        self._duplicates(text, entries)
        metadata = entries.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            self.ledger.warn("D0106", "__metadata__", expected="strings by name", found=f"something else in {self.file}", hint=WRITER)
        if b"\\" in text or not text.isascii():
            self._unprintable(entries)
        return entries

    def _duplicates(self, text: bytes, entries: dict[str, Any]) -> None:
        """Parsers keep the last of two equal keys. Each entry has one `data_offsets`: where the counts agree, a slower parse is spared."""
        count = len(entries) - ("__metadata__" in entries)
        if b"\\" not in text and text.count(b'"data_offsets"') == count and text.count(b'"__metadata__"') <= 1:
            return
        outermost: list[tuple[str, Any]] = []

        def closed(pairs: list[tuple[str, Any]]) -> None:
            nonlocal outermost
            outermost = pairs  # the outermost object closes last

        json.loads(text.decode(), object_pairs_hook=closed)
        for name, times in Counter(name for name, _ in outermost).items():
            if times > 1:
                found = f"duplicate key: {times} entries in the header of {self.file}"
                self.ledger.fail("D0104", name, expected="one entry", found=found, hint=WRITER)

    def _unprintable(self, entries: dict[str, Any]) -> None:
        for name in [name for name in entries if not name.isprintable()]:
            del entries[name]
            self.refused.add(name)
            self.ledger.fail("D0106", name, expected="a printable name", found=f"control characters, in {self.file}", hint=WRITER)

    def examine_all(self, entries: dict[str, Any]) -> None:
        """Fill `tensors` and `refused`."""
        base, limit, sizes, tensors, file = self.base, self.size - self.base, self.sizes, self.tensors, self.file
        for name, entry in entries.items():
            try:
                start, end = entry["data_offsets"]
                dtype = entry["dtype"]
                nbytes, shape = sizes[(dtype, *entry["shape"])]
                if end - start == nbytes and start >= 0 and end <= limit and type(start) is type(end) is int:
                    tensors[name] = TensorHeader(name, dtype, shape, file, base + start, base + end)
                    continue
            except (KeyError, TypeError, ValueError):
                pass
            try:
                tensors[name] = self._examine(name, entry)
            except Unsound as error:
                self.refused.add(name)
                self.ledger.fail(error.code, name, expected=error.expected, found=f"{error.found} in {file}", hint=error.hint)

    def _examine(self, name: str, entry: Any) -> TensorHeader:
        """The close look at an entry."""
        dtype, shape, start, end = _fields(entry)
        if start < 0 or end < start:
            raise Unsound("D0108", expected="0 <= begin <= end", found=f"data_offsets [{start}, {end}]", hint=WRITER)
        header = TensorHeader(name, dtype, shape, self.file, self.base + start, self.base + end)
        if dtype not in BITS:
            found = f"dtype {dtype[:40]} is not understood, in {self.file}"
            self.ledger.add("unknown", "D0107", name, expected="a known dtype", found=found, hint="a newer day0 may know it")
            return header
        bits = prod(shape) * BITS[dtype]
        if BITS[dtype] < 8 and shape and shape[-1] * BITS[dtype] % 8:
            raise Unsound("D0108", expected="rows of whole bytes", found=f"{dtype} {list(shape)}", hint=WRITER)
        if bits != (end - start) * 8:
            expected = f"{(bits + 7) // 8} bytes for {dtype} {list(shape)}"
            raise Unsound("D0108", expected=expected, found=f"{end - start} bytes", hint=WRITER)
        self.sizes[(dtype, *shape)] = (end - start, shape)
        return header

    def lay_out(self) -> None:
        """Tensors in the order of their bytes: no byte shared, none unowned, none outside the file."""
        edge, before = self.base, ""
        for header in sorted(self.tensors.values(), key=attrgetter("start", "end")):
            if header.start != edge:
                if header.start > max(edge, self.size):
                    self._outside(header)
                    continue
                self._gap(header, edge, before)
            if header.end >= edge:
                edge, before = header.end, header.name
        if edge > self.size:
            cut = sum(header.end > self.size for header in self.tensors.values())
            found = f"truncated: {edge - self.size} bytes are missing, {cut} tensors are incomplete"
            self.ledger.fail("D0110", self.file, expected=f"{edge} bytes", found=found, hint="download not finished? " + DAMAGED)
        elif edge < self.size and not self.refused:
            found = f"{self.size - edge} bytes after the last tensor; strict readers will refuse this file"
            self.ledger.warn("D0113", self.file, expected=f"{edge} bytes", found=found, hint="cut the file to its expected size")

    def _gap(self, header: TensorHeader, edge: int, before: str) -> None:
        if header.start < edge:
            subject = f"{before} / {header.name}"
            found = f"overlap of {min(edge, header.end) - header.start} bytes in {self.file}"
            self.ledger.fail("D0111", subject, expected="bytes of their own", found=found, hint=WRITER)
        elif not self.refused:
            found = f"hole of {header.start - edge} bytes before it, in {self.file}"
            self.ledger.fail("D0112", header.name, expected="no byte between two tensors", found=found, hint=WRITER)

    def _outside(self, header: TensorHeader) -> None:
        del self.tensors[header.name]
        self.refused.add(header.name)
        expected = f"bytes inside {self.file} of {self.size} bytes"
        self.ledger.fail("D0109", header.name, expected=expected, found=f"bytes {header.start} to {header.end}", hint=DAMAGED)


def bytes_of(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes of a tensor whose rows are whole bytes; None for any other, and for a type that is not known."""
    bits = BITS.get(dtype)
    if bits is None or len(shape) > RANK or max(shape, default=0).bit_length() > 63 or (bits < 8 and shape and shape[-1] * bits % 8):
        return None
    size, rest = divmod(prod(shape) * bits, 8)
    return None if rest else size


def _no_float(text: str) -> Any:
    raise ValueError(f"number {text[:20]} in a header")


def _fields(entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """(dtype, shape, begin, end), of the right types."""
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [start, end]} if len(shape) <= RANK:
            numbers = [*shape, start, end]
            if all(type(n) is int and n.bit_length() < 64 for n in numbers) and all(n >= 0 for n in shape):
                return dtype, tuple(shape), start, end
    expected = "dtype, shape (whole numbers) and data_offsets (two whole numbers)"
    raise Unsound("D0106", expected=expected, found=str(entry)[:120], hint=WRITER)
