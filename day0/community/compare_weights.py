"""Weights: every stored tensor of a layer, decoded by our format and by an independent path."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from day0.community.decode import independent
from day0.community.pattern import pattern
from day0.engine.loading import copy, decoded
from day0.engine.release import Located, Release
from day0.spec.evidence import WeightEvidence
from day0.spec.format import Stored
from day0.spec.progress import Progress

SLAB = 1 << 20  # elements of a plain tensor that are compared at a time
Memo = Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]]
Sampled = tuple[int | None, str, Located, Stored]  # layer, part, weight, one of its stored tensors


def compare_weights(
    release: Release, layers: Sequence[int], ends: bool, progress: Progress, memo: Memo = lambda _key, compute: compute()
) -> Iterator[WeightEvidence]:
    """Evidence for each stored tensor of `layers`, and of embedding, norm and head with `ends`; one tensor is in memory at a time.

    `memo` (a name, what measures) may know a measurement already.
    """
    tensors = list(_tensors(release, layers, ends))
    measured = []
    for done, (layer, part, located, stored) in enumerate(tensors):
        progress("weights", done, len(tensors))
        measured.append(memo(f"weights {stored.name}", partial(_measure, release, layer, part, located, stored)))
    progress("weights", len(tensors), len(tensors))
    kinds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for found, (_, _, located, _) in zip(measured, tensors, strict=True):
        kinds[_kind(located)].append(found["rms"])
    for found, (_, _, located, _) in zip(measured, tensors, strict=True):
        yield WeightEvidence(**found, usual=median(kinds[_kind(located)]))


def _tensors(release: Release, layers: Sequence[int], ends: bool) -> Iterator[Sampled]:
    seen = set()
    groups = [(None, release.ends())] if ends else []
    for layer, weights in [*groups, *((index, release.layer(index)) for index in layers)]:
        for name, located in weights.items():
            for _, stored in located.pieces:
                if stored.name not in seen:  # a stored tensor may hold several weights
                    seen.add(stored.name)
                    yield layer, name.partition(".")[0], located, stored


def _kind(located: Located) -> tuple[str, str]:
    """Tensors that should look alike: the same weight in every layer and expert."""
    return located.spec.role, located.name.partition(".")[2].partition(".")[2]


def _measure(release: Release, layer: int | None, part: str, located: Located, stored: Stored) -> dict[str, Any]:
    """Statistics of one stored tensor, read in slabs of rows where it is plain and large."""
    squares, peak, finite, largest, path = 0.0, 0.0, True, 0.0, ""
    apart, where, looks = 0.0, "", ""
    for start, ours, other in _slabs(release, stored):
        kept = torch.nan_to_num(ours, nan=0.0, posinf=0.0, neginf=0.0)
        squares += float(kept.double().square().sum())
        peak = max(peak, float(kept.abs().max())) if kept.numel() else peak
        finite = finite and bool(torch.isfinite(ours).all())
        if other:
            path = other[1]
            largest = max(largest, float(torch.nan_to_num(other[0], nan=0.0, posinf=0.0, neginf=0.0).abs().max()))
            difference, place = _difference(ours, other[0], start)
            if difference > apart:
                apart, where, looks = difference, place, _pattern(ours, other[0])
    return dict(
        layer=layer, part=part, name=stored.name, role=located.spec.role, format=stored.format, path=path, where=where, finite=finite,
        deviation=0.0 if apart == 0 else apart / largest if largest else math.inf, rms=math.sqrt(squares / max(1, math.prod(stored.shape))),
        peak=peak, pattern=looks,
    )  # fmt: skip


def _slabs(release: Release, stored: Stored) -> Iterator[tuple[int, Tensor, tuple[Tensor, str] | None]]:
    """(first row, our values, independent values with the name of their path), in float32."""
    rows = stored.shape[0] if stored.shape else 1
    if stored.format != "plain" or math.prod(stored.shape) <= SLAB:
        yield 0, decoded(release.folder, stored, torch.float32), independent(release.checkpoint, stored)
        return
    width = math.prod(stored.shape[1:])
    count = max(1, SLAB // width)
    for start in range(0, rows, count):
        ours = torch.empty(min(count, rows - start), *stored.shape[1:])
        copy(release.folder, stored.parts["data"], ours, start * width)
        yield start, ours, independent(release.checkpoint, stored, slice(start, start + len(ours)))


def _pattern(ours: Tensor, other: Tensor) -> str:
    """Of matrices that hold finite numbers."""
    comparable = ours.shape == other.shape and ours.dim() > 1 and bool((torch.isfinite(ours) & torch.isfinite(other)).all())
    return pattern(ours.flatten(0, -2).double(), other.flatten(0, -2).double()) if comparable else ""


def _difference(ours: Tensor, other: Tensor, start: int) -> tuple[float, str]:
    """Largest difference and its place; a NaN on one side alone is infinite."""
    if ours.shape != other.shape:
        return math.inf, f"shape {list(ours.shape)} instead of {list(other.shape)}"
    same = (ours == other) | (torch.isnan(ours) & torch.isnan(other))
    if same.all():
        return 0.0, ""
    apart = torch.where(same, 0.0, (ours - other).abs().nan_to_num(nan=math.inf))
    place = [int(index) for index in torch.unravel_index(apart.argmax(), apart.shape)]
    if place:
        place[0] += start
    return float(apart.max()), str(place)
