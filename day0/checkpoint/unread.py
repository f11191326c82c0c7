"""Tensors that no format took, and how formats would read them, were their companions there."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from day0.checkpoint.folder import Checkpoint
from day0.spec.format import Reading, TensorHeader, Want
from day0.spec.registry import formats

RIGHT, TYPE, THERE = 4, 2, 1  # how near a companion is: as it should be, of the right type only, there at all


class Unread(NamedTuple):
    """One tensor that no format took."""

    header: TensorHeader
    readings: tuple[Reading, ...]  #: the likeliest ways to read it; several when they are equally likely
    evidence: bool  #: whether a companion, or another weight of the release, speaks for them

    @property
    def names(self) -> set[str]:
        """Of the companions that would be read with it."""
        return {name for reading in self.readings for want in reading.wants.values() for name in want.names}

    def bare(self, headers: Mapping[str, TensorHeader]) -> bool:
        """Whether none of them is there."""
        return not any(name in headers for name in self.names)


def unread(checkpoint: Checkpoint) -> list[Unread]:
    """Every tensor that is left over and that some format knows by its name and type; companions are told with their weight."""
    found = list(_left(checkpoint))
    companions = {name for left in found for name in left.names}
    return [left for left in found if left.header.name not in companions]


def _left(checkpoint: Checkpoint) -> Iterator[Unread]:
    if checkpoint.all_read:
        return
    stored = checkpoint.stored.values()
    taken = {part.name for weight in stored for part in weight.parts.values()}
    used = {weight.format: weight.block for weight in stored}
    config: Mapping[str, Any] = checkpoint.quantization
    if "fp8_block" in used:
        config = {**config, "weight_block_size": list(used["fp8_block"])}
    for name, header in checkpoint.headers.items():
        if name not in taken:
            found = [(kind, form.reading(header, checkpoint.headers, config)) for kind, form in formats().items() if form.reading]
            ranked = [((nearness(reading, checkpoint.headers), kind in used), reading) for kind, reading in found if reading]
            if ranked:
                best = max(rank for rank, _ in ranked)
                yield Unread(header, tuple(reading for rank, reading in ranked if rank == best), best > (0, False))


def nearness(reading: Reading, headers: Mapping[str, TensorHeader]) -> int:
    """How much of what a reading wants is there."""
    return sum(_near(want, headers) for want in reading.wants.values())


def _near(want: Want, headers: Mapping[str, TensorHeader]) -> int:
    if want.find(headers) is not None:
        return RIGHT
    present = [headers[name] for name in want.names if name in headers]
    return max((TYPE if header.dtype in want.dtypes else THERE for header in present), default=0)
