"""Tensors that pass through a layer of the reference, recognised whatever their layout: by sums over what belongs to each token."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

NEAR = 3e-4  # relative difference of sums that rounding in float32 explains
MOST = 4000  # tensors of one layer that are kept in mind


@dataclass(frozen=True)
class Sums:
    """What is left of a tensor once the order of its numbers within a token is forgotten."""

    per_token: int  #: numbers that belong to one token
    sums_TX: Tensor  #: sum, sum of squares and sum of fourth powers of each token, float64

    @property
    def scale_TX(self) -> Tensor:
        """Size of rounding errors of the sums."""
        squares_T = self.sums_TX[:, 1]
        return torch.stack(((self.per_token * squares_T).sqrt(), squares_T, self.sums_TX[:, 2]), dim=-1)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.per_token + other.per_token, self.sums_TX + other.sums_TX)


def sums(tensor: Tensor, axis: int = 0) -> Sums:
    """Of a tensor whose `axis` counts tokens."""
    rows_TX = tensor.detach().movedim(axis, 0).flatten(1).double() if tensor.dim() > 1 else tensor.detach().double()[:, None]
    return Sums(rows_TX.shape[1], torch.stack([rows_TX.pow(power).sum(-1) for power in (1, 2, 4)], dim=-1))


def differing(one: Sums, other: Sums) -> Tensor:
    """[T] bool: tokens of `one` whose sums are further from those of `other` than rounding explains."""
    near = (one.sums_TX - other.sums_TX).abs() <= NEAR * one.scale_TX + 1e-30
    return ~near.all(-1)


class Passing(TorchFunctionMode):
    """Collects the sums of every floating-point tensor that torch returns while the mode is on."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.seen: list[Sums] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor) and tensor.is_floating_point() and not tensor.is_meta and len(self.seen) < MOST:
                with torch._C.DisableTorchFunction():
                    self._add(tensor)
        return result

    def _add(self, tensor: Tensor) -> None:
        for axis in range(tensor.dim()):
            if tensor.shape[axis] == self.tokens:
                self.seen.append(sums(tensor, axis))

    def narrowed(self, rows: Tensor) -> "Passing":
        """Some tokens of what was seen."""
        some = Passing(len(rows))
        some.seen = [Sums(one.per_token, one.sums_TX[rows]) for one in self.seen]
        return some

    def find(self, wanted: Sums) -> Tensor | None:
        """None when a tensor (or two together) has these sums; else [T] bool, the tokens that differ from the nearest one."""
        nearest: Tensor | None = None
        for found in self._candidates(wanted.per_token):
            wrong_T = differing(wanted, found)
            if not wrong_T.any():
                return None
            if nearest is None or wrong_T.sum() < nearest.sum():
                nearest = wrong_T
        return torch.ones(self.tokens, dtype=torch.bool) if nearest is None else nearest

    def _candidates(self, per_token: int) -> Any:
        single = [found for found in self.seen if found.per_token == per_token]
        yield from single
        smaller = [found for found in self._distinct() if found.per_token < per_token]
        yield from (a + b for a, b in combinations(smaller, 2) if a.per_token + b.per_token == per_token)

    def _distinct(self) -> list[Sums]:
        found: dict[tuple[int, bytes], Sums] = {}
        for one in self.seen:
            found.setdefault((one.per_token, one.sums_TX[-1].numpy().tobytes()), one)
        return list(found.values())
