"""The null: what a harmless change of the reference does to its own error. A limit that the null comes near says nothing."""

from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Reordered(TorchFunctionMode):
    """While the mode is on, linear maps add up their products in the opposite order, for half of the batch at a time."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func is functional.linear and len(args) > 1:
            x, weight, *rest = args
            weight, axis = weight.flip(-1), max(x.dim() - 2, 0)
            halves = x.flip(-1).chunk(2, axis) if x.dim() > 1 else (x.flip(-1),)
            return torch.cat([func(half, weight, *rest, **(kwargs or {})) for half in halves], axis)
        return func(*args, **(kwargs or {}))
