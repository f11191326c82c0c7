"""Weights: every stored tensor of a layer, decoded by our format and by an independent path."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor

from day0.community.decode import independent
from day0.engine.loading import decoded
from day0.engine.release import Located, Release
from day0.spec.evidence import WeightEvidence
from day0.spec.format import Stored
from day0.spec.progress import Progress

Sampled = tuple[int | None, str, Located, Stored]  # layer, part, weight, one of its stored tensors


def compare_weights(release: Release, layers: Sequence[int], ends: bool, progress: Progress) -> Iterator[WeightEvidence]:
    """Evidence for each stored tensor of `layers`, and of embedding, norm and head with `ends`; one tensor is in memory at a time."""
    tensors = list(_tensors(release, layers, ends))
    measured = []
    for done, (layer, part, located, stored) in enumerate(tensors):
        progress("weights", done, len(tensors))
        measured.append(_measure(release, layer, part, located, stored))
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
    ours = decoded(release.folder, stored, torch.float32)
    other = independent(release.checkpoint, stored)
    deviation, where = _deviation(ours, other[0]) if other else (0.0, "")
    kept = torch.nan_to_num(ours, nan=0.0, posinf=0.0, neginf=0.0)
    return dict(
        layer=layer, part=part, name=stored.name, role=located.spec.role, format=stored.format, path=other[1] if other else "",
        deviation=deviation, where=where, finite=bool(torch.isfinite(ours).all()), rms=float(kept.double().pow(2).mean().sqrt()),
        peak=float(kept.abs().max()) if kept.numel() else 0.0,
    )  # fmt: skip


def _deviation(ours: Tensor, other: Tensor) -> tuple[float, str]:
    """Largest difference relative to the largest magnitude, and its place; a NaN on one side alone is infinite."""
    if ours.shape != other.shape:
        return math.inf, f"shape {list(ours.shape)} instead of {list(other.shape)}"
    both = torch.isnan(ours) & torch.isnan(other)
    apart = torch.where((ours == other) | both, torch.zeros_like(ours), (ours - other).abs().nan_to_num(nan=math.inf))
    if not apart.any():
        return 0.0, ""
    place = torch.unravel_index(apart.argmax(), apart.shape)
    largest = float(other[torch.isfinite(other)].abs().max())
    return float(apart.max()) / largest if largest else math.inf, str([int(index) for index in place])
