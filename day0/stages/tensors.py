"""Tensors of a release by the pattern of their names, for `day0 inspect --tensors`."""

from collections import Counter
from pathlib import Path
from typing import TypeVar

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.source import Source
from day0.spec.record import record

T = TypeVar("T")


@record
class TensorKind:
    """Tensors whose names differ only in their numbers."""

    pattern: str  #: their name, * for each number
    count: int  #: how many
    dtypes: tuple[str, ...]  #: number types, the most frequent first
    shapes: tuple[tuple[int, ...], ...]  #: the most frequent first
    formats: tuple[str, ...]  #: what they are read by; empty for what no format reads
    bytes: int  #: of all


def tensors(place: Source | Path) -> list[TensorKind]:
    """Every tensor of the headers, in the order of the first of each kind. Errors as those of `inspect`."""
    checkpoint = Checkpoint.open(place)
    reader = {part.name: stored.format for stored in checkpoint.stored.values() for part in stored.parts.values()}
    found = []
    for pattern, names in checkpoint.kinds.items():
        headers = [checkpoint.headers[name] for name in names]
        found.append(
            TensorKind(
                pattern=pattern,
                count=len(headers),
                dtypes=_frequent([header.dtype for header in headers]),
                shapes=_frequent([header.shape for header in headers]),
                formats=_frequent([reader[name] for name in names if name in reader]),
                bytes=sum(header.bytes for header in headers),
            )
        )
    return found


def _frequent(values: list[T]) -> tuple[T, ...]:
    return tuple(value for value, _ in Counter(values).most_common())
