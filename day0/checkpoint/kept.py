"""What the heads of a sound release say, kept in a file: half a million entries that a later stage need not read again."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from day0.checkpoint.banks import Bank, Folded, Rows, folded
from day0.checkpoint.columns import Integers
from day0.checkpoint.headers import Shard
from day0.spec.format import TensorHeader
from day0.spec.lazy import numpy as np
from day0.spec.record import record


@record
class Heads:
    """All heads of a release in which nothing is wrong."""

    shards: Mapping[str, Shard]  #: files that make up the model, by name
    headers: Folded[TensorHeader]  #: tensor → header

    def to_bytes(self) -> bytes:
        """As a file of `numpy.savez`."""
        files = {file: place for place, file in enumerate(self.shards)}
        banks = [bank for bank, _ in self.headers.banks]
        rows = [some for bank in banks for some in bank.columns.values()]
        told = {
            "shards": [[shard.file, shard.size, shard.digest, shard.count] for shard in self.shards.values()],
            "singles": [[*header[:3], files[header.file], header.start, header.end] for header in self.headers.singles.values()],
            "banks": [[bank.head, len(bank), [some[1:5] for some in bank.columns.values()]] for bank in banks],
        }
        written = io.BytesIO()
        np.savez(
            written,
            told=np.frombuffer(json.dumps(told).encode(), np.uint8),
            numbers=_joined(bank.numbers for bank in banks),
            files=_joined(some.files for some in rows),
            starts=_joined(some.starts for some in rows),
        )
        return written.getvalue()

    @classmethod
    def of_bytes(cls, content: bytes) -> "Heads":
        """What `to_bytes` made the file of."""
        with np.load(io.BytesIO(content), allow_pickle=False) as held:
            told, columns = json.loads(held["told"].tobytes()), {name: held[name] for name in ("numbers", "files", "starts")}
        files = tuple(file for file, *_ in told["shards"])
        singles = {
            name: TensorHeader(name, dtype, tuple(shape), files[place], start, end) for name, dtype, shape, place, start, end in told["singles"]
        }
        shards = {
            file: Shard(file=file, size=size, digest=digest, count=count, refused=frozenset(), readable=True, findings=())
            for file, size, digest, count in told["shards"]
        }
        return cls(shards=shards, headers=folded(singles, _banks(told["banks"], columns, files)))


def _joined(columns: Iterable[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, np.int64), *columns])


def _banks(told: Iterable[tuple[str, int, list[Any]]], columns: Mapping[str, Integers], files: tuple[str, ...]) -> Iterator[Bank]:
    expert = entry = 0
    for head, count, kinds in told:
        rows = []
        for tail, dtype, shape, size in kinds:
            mine = slice(entry, entry := entry + count)
            numbers = columns["numbers"][expert : expert + count]
            rows.append(Rows(head, tail, dtype, tuple(shape), size, numbers, columns["files"][mine], columns["starts"][mine]))
        yield Bank(head, rows, files)
        expert += count
