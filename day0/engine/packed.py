"""Weights that stay packed at rest, and the one workspace that they are decoded into when they are used."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from day0.engine.footprint import aligned
from day0.spec.packed import Packed


@dataclass(frozen=True)
class Group:
    """Weights that read the same input."""

    members: tuple[Any, ...]  # tensors or packed weights, in order
    joined: Tensor | None  # all of them as one tensor, where they lie side by side

    @classmethod
    def of(cls, members: tuple[Any, ...]) -> "Group":
        """Joined when they are plain, of one type, and neighbours in one buffer."""
        first = members[0]
        end = None
        for member in members:
            if not isinstance(member, Tensor) or member.dtype != first.dtype or (end is not None and member.data_ptr() != end):
                return cls(members, None)
            end = member.data_ptr() + member.nbytes
        rows = sum(member.shape[0] for member in members)
        return cls(members, first.as_strided((rows, *first.shape[1:]), first.stride()))

    @property
    def format(self) -> str:
        """Formats of its members, joined by +."""
        return "+".join(sorted({member.format if isinstance(member, Packed) else "plain" for member in self.members}))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.members)


class Workspace:
    """One allocation for decoded weights, reused by every call of every layer."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.bytes = size
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device)
        self._used = 0

    def rewind(self) -> None:
        """Forget what the last call decoded."""
        self._used = 0

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Room for a tensor, until the next `rewind`."""
        size = prod(shape) * dtype.itemsize
        assert self._used + size <= self.bytes, f"workspace of {self.bytes} bytes cannot take {size} more than {self._used}"
        view = self._buffer[self._used : self._used + size].view(dtype).view(shape)
        self._used += aligned(size)
        return view

    def decoded(self, weight: Any) -> Any:
        """A plain weight as it is; a packed one decoded; a packed bank as something that decodes the expert it is asked for."""
        if isinstance(weight, Group):
            return weight if weight.joined is not None else Group(tuple(map(self.decoded, weight)), None)
        if not isinstance(weight, Packed):
            return weight
        if weight.bank:
            return _Bank(weight, self.take(weight.shape[1:], weight.dtype))
        return weight.decode(self.take(weight.shape, weight.dtype))


class _Bank:
    """Experts of a packed bank, one at a time in the same place."""

    def __init__(self, packed: Packed, room: Tensor) -> None:
        self._packed, self._room = packed, room

    def __getitem__(self, e: int) -> Tensor:
        return self._packed.expert(e).decode(self._room)
