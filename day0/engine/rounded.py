"""State that is kept in fewer bits than it is computed in, simulated: every entry is rounded before it is written."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from day0.engine.state import LayerState
from day0.spec.step import Segment

Keep = Callable[[Tensor], Tensor]  # entries of some tokens → what is left of them
MOST = {"int8": 127.0, "fp8": 448.0}  # largest number of a type


class Rounded:
    """The state of one layer, which reads what `keep` leaves."""

    def __init__(self, state: LayerState, keep: Keep) -> None:
        self._state, self._keep = state, keep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def append(self, name: str, values_N: Tensor, segment: Segment) -> None:
        """As `LayerState.append`."""
        self._state.append(name, self._keep(values_N), segment)

    def write(self, name: str, values_B: Tensor, segment: Segment) -> None:
        """As `LayerState.write`."""
        self._state.write(name, self._keep(values_B), segment)


def rounding(kind: str) -> Keep:
    """To "int8" or "fp8" (e4m3), with one scale for the last axis of each entry; to "bf16" without."""

    def keep(values: Tensor) -> Tensor:
        if not values.is_floating_point():
            return values
        if kind == "bf16":
            return values.to(torch.bfloat16).to(values.dtype)
        scale = values.float().abs().amax(-1, keepdim=True).clamp(min=1e-30) / MOST[kind]
        scaled = values.float() / scale
        kept = scaled.round() if kind == "int8" else scaled.to(torch.float8_e4m3fn).float()
        return (kept * scale).to(values.dtype)

    return keep
