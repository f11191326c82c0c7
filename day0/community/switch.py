"""A feature that is turned on layer by layer: which layers do not bear it, alone or only together.

The whole model runs with the feature off, then with it on in some layers, on the choices of the first run; logits tell how much it changes.
The smallest set that changes too much is found by delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.engine.probe import LayerResult, Probe
from day0.engine.rounded import rounding
from day0.spec.progress import Progress, silent
from day0.spec.whole_evidence import SwitchEvidence

Feature = Literal["kv-int8", "kv-fp8", "kv-bf16", "dtype"]
SPOILED = 0.05  # nats a token by which logits may diverge
Layers = frozenset[int]
Memo = Callable[[str, Callable[[], float]], float]


def compare_switched(
    bench: Bench, feature: Feature, ids: Sequence[int], limit: float = SPOILED, progress: Progress = silent,
    memo: Memo = lambda _key, compute: compute(),
) -> SwitchEvidence:  # fmt: skip
    """What a feature changes in all layers; and where that is more than `limit`, in which."""
    trial = _Trial(bench, feature, ids)
    runs = 0

    @cache
    def divergence(layers: Layers) -> float:
        nonlocal runs
        progress("switch", runs, runs + 1)
        runs += 1
        return memo(f"switch {feature} {sorted(layers)}", lambda: trial.divergence(layers))

    every = frozenset(range(len(bench.release.model.layers)))
    everywhere = divergence(every)
    spoiling = smallest(every, lambda some: divergence(some) > limit) if everywhere > limit else frozenset[int]()
    alone, rest = (divergence(some) if spoiling and some else 0.0 for some in (spoiling, every - spoiling))
    progress("switch", runs, runs)
    return SwitchEvidence(
        layer=min(spoiling, default=None), part="switch", feature=feature, layers=tuple(sorted(spoiling)), tokens=len(ids), limit=limit,
        all=everywhere, alone=alone, rest=rest,
    )  # fmt: skip


def smallest(every: Iterable[int], fails: Callable[[Layers], bool]) -> Layers:
    """A set of which no member can be left out without `fails` becoming false; `every` must fail."""
    current, parts = sorted(every), 2
    while len(current) > 1:
        size = -(-len(current) // parts)
        pieces = [current[i : i + size] for i in range(0, len(current), size)]
        rests = [[layer for layer in current if layer not in piece] for piece in pieces] if len(pieces) > 2 else []
        next_one = next((some for some in [*pieces, *rests] if fails(frozenset(some))), None)
        if next_one is not None:
            parts = 2 if next_one in pieces else max(parts - 1, 2)
            current = next_one
        elif parts >= len(current):
            break
        else:
            parts = min(2 * parts, len(current))
    return frozenset(current)


@dataclass
class _Trial:
    """The model with the feature off, once; and on in some layers, as often as asked."""

    bench: Bench
    feature: Feature
    ids: Sequence[int]
    _plain: dict[int, LayerResult] = field(default_factory=dict)
    _right: Tensor | None = None

    def __post_init__(self) -> None:
        own = self.bench.probes[list(self.bench.maps)[-1]]
        self._off = self.bench.probes[torch.float32] if self.feature == "dtype" else own
        self._on = own if self.feature == "dtype" else Probe(own.release, own.mapped, str(own.dtype).removeprefix("torch."))
        if self.feature != "dtype":
            self._on.keep = rounding(self.feature.removeprefix("kv-"))
        half = len(self.ids) // 2
        self._chunks = [size for size in (half, len(self.ids) - half) if size]

    def divergence(self, layers: Layers) -> float:
        """Mean Kullback-Leibler divergence from the run without it, nats a token."""
        if self._right is None:
            self._right = self._run(frozenset())
        total = 0.0
        for ours_W, right_W in zip(self._run(layers), self._right, strict=True):
            right_W = right_W.double().log_softmax(-1)
            total += float((right_W.exp() * (right_W - ours_W.double().log_softmax(-1))).sum())
        return total / len(self.ids)

    def _run(self, layers: Layers) -> Tensor:
        """Logits [T, W]; the first run, which is without the feature, says what is chosen."""
        stream = self._off.embed(self.ids)
        for index in range(len(self.bench.release.model.layers)):
            probe, plain = self._on if index in layers else self._off, self._plain.get(index)
            experts, reads = (plain.experts_TK, plain.reads_TK) if plain else (None, None)
            result = probe.layer(index, stream.to(probe.dtype), experts, self._chunks, ids=self.ids, reads_TK=reads)
            self._plain.setdefault(index, result)
            stream = result.hidden_TD
        return self._off.head(stream)
