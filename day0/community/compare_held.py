"""Weights as the engine holds them: cut, turned, stacked and joined, against each stored tensor decoded on its own."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.community.decode import independent
from day0.community.pattern import pattern
from day0.engine.release import Located, Release
from day0.spec.evidence import HeldEvidence
from day0.spec.names import Cut
from day0.spec.packed import Packed

LARGEST = 1 << 26  # elements of a stored tensor that is compared again; larger ones were compared where they are stored


def compare_held(release: Release, index: int, held: Any, experts: Collection[int] | None = None) -> Iterator[HeldEvidence]:
    """Evidence for the weights of a layer that are held as `held`; of experts that are stored one by one, all or some."""
    for name, located in release.layer(index).items():
        if located.spec.count <= LARGEST * len(located.pieces) and located.spec.precision != "integer":
            yield _one(release.checkpoint, index, name, located, _at(held, name), experts)


def _at(held: Any, name: str) -> Any:
    for step in name.split("."):
        held = getattr(held, step)
    return held


def _one(
    checkpoint: Checkpoint, index: int, name: str, located: Located, held: Any, experts: Collection[int] | None
) -> HeldEvidence:  # fmt: skip
    """The worst expert of a bank that is stored one by one speaks for all."""
    worst = _Apart()
    for e in range(len(located.pieces)):
        if located.stacked and experts is not None and e not in experts:
            continue
        right = stored_value(checkpoint, located, e)
        if right is None:
            continue
        mine = _decoded(held.expert(e) if located.stacked and isinstance(held, Packed) else held[e] if located.stacked else held)
        kept = held.dtype if isinstance(held, Tensor) else torch.float32
        apart = _difference(mine, right.reshape(mine.shape).to(kept).float())
        if apart.deviation > worst.deviation:
            worst = replace(apart, expert=e) if located.stacked else apart
    expert = worst.expert if located.spec.role == "expert" else None
    return HeldEvidence(layer=index, part=name.partition(".")[0], name=name, **(vars(worst) | {"expert": expert}))


@dataclass(frozen=True)
class _Apart:
    """How a weight differs, and where."""

    deviation: float = 0.0
    expert: int | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    pattern: str = ""


def _decoded(held: Any) -> Tensor:
    value = held.decode(torch.empty(held.shape, dtype=torch.float32)) if isinstance(held, Packed) and not held.bank else held
    if isinstance(value, Packed):
        value = torch.stack([_decoded(value.expert(e)) for e in range(value.shape[0])])
    return value.float().cpu()


def stored_value(checkpoint: Checkpoint, located: Located, e: int = 0) -> Tensor | None:
    """What one stored tensor of a weight says that it is, in float32; None where it can be decoded in one way only."""
    piece, stored = located.pieces[e]
    found = independent(checkpoint, stored)
    if found is None:
        return None
    return found[0] if piece.cut is None else _part(found[0], piece.cut, located.spec.shape)


def _part(stored: Tensor, cut: Cut, shape: tuple[int, ...]) -> Tensor:
    """The part of a stored tensor that one weight is, by strides."""
    if cut.padded:
        return stored.flatten()[: math.prod(shape)]
    size = stored.shape[cut.axis] // cut.of
    start, step = (cut.part, cut.of) if cut.interleaved else (cut.part * size, 1)
    part = stored.movedim(cut.axis, 0)[start : start + step * size : step].movedim(0, cut.axis)
    return part.mT if cut.transpose else part


def _difference(mine: Tensor, right: Tensor) -> _Apart:
    """Largest difference relative to the largest value; expert, rows, columns and pattern of what differs."""
    apart = torch.where((mine == right) | (mine.isnan() & right.isnan()), 0.0, (mine - right).abs().nan_to_num(nan=math.inf))
    peak = float(apart.max()) if apart.numel() else 0.0
    if not peak:
        return _Apart()
    largest, expert = float(right.nan_to_num(0, 0, 0).abs().max()), None
    if apart.dim() == 3:
        expert = int(apart.flatten(1).amax(-1).argmax())
        apart, mine, right = apart[expert], mine[expert], right[expert]
    deviation = peak / largest if largest else math.inf
    if apart.dim() != 2:
        return _Apart(deviation, expert)
    looks = pattern(mine.double(), right.double()) if math.isfinite(peak) else ""
    return _Apart(deviation, expert, _span(apart.amax(-1)), _span(apart.amax(0)), looks)


def deviation(mine: Tensor, right: Tensor) -> dict[str, Any]:
    """Fields of evidence for one tensor and what it should be."""
    return vars(_difference(mine.float().cpu(), right.float().cpu()))


def _span(apart: Tensor) -> tuple[int, int] | None:
    """First and last place that differs; None when all do."""
    places = (apart > 0).nonzero().flatten()
    return None if len(places) == len(apart) else (int(places[0]), int(places[-1]))
