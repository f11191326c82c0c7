"""Arguments of an operator call as its reference takes them: decoded, and in a type of one's choice."""

from typing import Any

import torch
from torch import Tensor

from day0.engine.packed import Group, Packed

LARGE = 1 << 24  # elements of a bank from which on its experts are widened one at a time


def widened(value: Any, width: torch.dtype | None) -> Any:
    """Packed weights decoded, floating-point tensors in `width` (None: as they are)."""
    if isinstance(value, Group | tuple):
        return tuple(widened(member, width) for member in value)
    if isinstance(value, Packed) and not value.bank:
        value = value.decode(torch.empty(value.shape, dtype=value.dtype))
    if isinstance(value, Packed) or (isinstance(value, Tensor) and value.dim() == 3 and width and value.numel() > LARGE):
        return _WideBank(value, width or torch.float64)
    return value.to(width) if isinstance(value, Tensor) and value.is_floating_point() and width else value


class _WideBank:
    """Experts in a wide type, one at a time."""

    def __init__(self, bank: Any, width: torch.dtype) -> None:
        self._bank, self._width = bank, width

    def __getitem__(self, e: int) -> Tensor:
        found: Tensor = widened(self._bank.expert(e) if isinstance(self._bank, Packed) else self._bank[e], self._width)
        return found
