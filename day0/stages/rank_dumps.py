"""Dumps of several ranks that share a model, put together as one card would have them.

How a tensor is shared is seen from the ranks themselves: where all of them have it whole, where each has a part of a sum, or where their
parts lie side by side. What layers have in common is shared alike in all of them, so that a wrong one does not pass for another layout.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from day0.spec.errors import Day0Error
from day0.stages.trace import REPORT, Key, key, sample

WHOLE, SUM = "whole on each", "summed"
ALIKE = 0.5  # relative difference up to which two ranks have the same tensor in some layer; parts of a sum are further apart
ALONE = 4.0  # times the error of every other rank: one rank is to blame


@dataclass(frozen=True)
class RankDumps:
    """What each rank dumped of one pass, in the order of the ranks."""

    tensors: list[dict[Key, Tensor]]

    @classmethod
    def open(cls, place: Path) -> Self | None:
        """Of a folder with one safetensors file for each rank, "rank0.safetensors"; None of anything else."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        files = sorted(place.glob("*.safetensors"), key=lambda file: [int(number) for number in re.findall(r"\d+", file.stem)])
        if not place.is_dir() or (place / REPORT).exists() or len(files) < 2:
            return None
        try:
            return cls([{key(name): value for name, value in load_file(file).items()} for file in files])
        except (SafetensorError, OSError) as error:
            raise Day0Error(f"not dumps of ranks: {error}", place) from None

    def together(self, shapes: Mapping[Key, list[int]], right: Mapping[Key, Tensor]) -> tuple[dict[Key, Tensor], list[str]]:
        """The whole tensors, and how they were put together; `shapes` and `right` (flat, or a sample) are those of one card.

        Of a tensor that each rank has whole, the one that is furthest from `right` counts.
        """
        shared = sorted((k for k in self.tensors[0] if all(k in own for own in self.tensors)), key=lambda k: (-1 if k[0] is None else k[0], k[1]))
        joined = {k: self._join(k, self.layout(k, shapes), right.get(k)) for k in shared}
        ways: dict[str, list[str]] = {}
        for k in joined:
            ways.setdefault(self.layout(k, shapes), []).append(k[1])
        said = "; ".join(f"{', '.join(dict.fromkeys(parts))} {way}" for way, parts in ways.items())
        return joined, [f"B is {len(self.tensors)} ranks: {said}"]

    def layout(self, wanted: Key, shapes: Mapping[Key, list[int]]) -> str:
        """How the ranks share a tensor: as `WHOLE`, as `SUM`, or "side by side along axis 1"."""
        alike = [k for k in self.tensors[0] if k[1] == wanted[1] and all(k in own for own in self.tensors)]
        for k in alike:
            sizes = [list(own[k].shape) for own in self.tensors]
            axis = next((a for a in range(len(sizes[0])) if k in shapes and _side_by_side(sizes, shapes[k], a)), None)
            if axis is not None:
                return f"side by side along axis {axis}"
        nearest = min((_apart(own[k], self.tensors[0][k]) for k in alike for own in self.tensors[1:]), default=0.0)
        return WHOLE if nearest < ALIKE else SUM

    def blame(self, k: Key, shapes: Mapping[Key, list[int]], right: Tensor) -> int | None:
        """The one rank whose own share is far from `right` (flat, all of it or a sample); None where that cannot be told."""
        layout = self.layout(k, shapes)
        shares = [own[k] for own in self.tensors]
        if layout == WHOLE:
            errors = [_from(share, right) for share in shares]
        elif layout != SUM and right.numel() == sum(share.numel() for share in shares):
            axis = int(layout.rpartition(" ")[2])
            wanted = right.view(shapes[k]).split([share.shape[axis] for share in shares], axis)
            errors = [_apart(share, own) for share, own in zip(shares, wanted, strict=True)]
        else:
            return None
        worst = max(range(len(errors)), key=errors.__getitem__)
        return worst if all(errors[worst] > ALONE * error for rank, error in enumerate(errors) if rank != worst) else None

    def _join(self, k: Key, layout: str, right: Tensor | None) -> Tensor:
        shares = [own[k] for own in self.tensors]
        if layout == WHOLE:
            return shares[0] if right is None else max(shares, key=lambda share: _from(share, right))
        return sum(shares[1:], shares[0]) if layout == SUM else torch.cat(shares, int(layout.rpartition(" ")[2]))


def _side_by_side(sizes: list[list[int]], whole: list[int], axis: int) -> bool:
    """Whether parts of these sizes make up the whole along an axis."""
    rest = [[*size[:axis], *size[axis + 1 :]] for size in (*sizes, whole) if len(size) == len(whole)]
    return len(rest) == len(sizes) + 1 and all(one == rest[0] for one in rest) and sum(size[axis] for size in sizes) == whole[axis]


def _from(share: Tensor, right: Tensor) -> float:
    """Relative difference of a whole tensor from another one, either of which may be a sample."""
    few = min(share.numel(), right.numel())
    return _apart(*(value.flatten() if value.numel() == few else sample(value.flatten()) for value in (share, right)))


def _apart(one: Tensor, other: Tensor) -> float:
    """Relative difference; infinite between shapes, and where values are broken on one side."""
    if one.numel() != other.numel():
        return float("inf")
    a, b = one.double().flatten(), other.double().flatten()
    found = float((a - b).norm() / b.norm().clamp(min=1e-30))
    return found if found == found else float("inf")
