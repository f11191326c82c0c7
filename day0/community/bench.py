"""What is compared: our engine and the reference, each in float32 and in the model's own type."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.community.reference import Reference
from day0.engine.definition import Definition
from day0.engine.probe import Probe
from day0.engine.release import Release
from day0.spec.reports.map_ops import MapOpsReport

Opens = Callable[[Checkpoint, torch.dtype, torch.device], Any]  # what behaves as `Reference`


@dataclass(frozen=True)
class Bench:
    """Nothing is read before it is used, and no more than one layer of each is held."""

    release: Release
    maps: dict[torch.dtype, MapOpsReport]  #: who runs each operator, in float32 and in the model's own type
    opens: Opens | None = None  #: makes the reference; None: transformers does

    @cached_property
    def probes(self) -> dict[torch.dtype, Probe]:
        """Our engine, in both types."""
        return {dtype: Probe.open(self.release, mapped, str(dtype).removeprefix("torch.")) for dtype, mapped in self.maps.items()}

    @cached_property
    def definition(self) -> Definition:
        """Our own definition, in float32; on the weights that our engine holds."""
        return Definition(self.probes[torch.float32])

    @cached_property
    def truth(self) -> Reference:
        """The reference in float32."""
        return self.reference(torch.float32)

    @cached_property
    def own(self) -> Reference:
        """The reference in the model's own type; the same object when that is float32."""
        dtype = list(self.maps)[-1]
        return self.truth if dtype == torch.float32 else self.reference(dtype)

    def ours(self, place: int) -> range:
        """Our layers that stand for layer `place` of the reference."""
        span = len(self.release.model.layers) // self.truth.layers
        assert span * self.truth.layers == len(self.release.model.layers), "layers of ours and of the reference do not line up"
        return range(place * span, (place + 1) * span)

    def reference(self, dtype: torch.dtype) -> Reference:
        """Opened in a type, with no layer in memory."""
        if self.opens:
            made: Reference = self.opens(self.release.checkpoint, dtype, next(iter(self.probes.values())).device)
            return made
        return Reference.open(self.release.checkpoint, dtype, range(0), next(iter(self.probes.values())).device)


def draw(seed: int, like_TD: Tensor) -> Tensor:
    """Normal values of unit size, in float32."""
    return torch.randn(like_TD.shape, generator=torch.Generator().manual_seed(seed)).to(like_TD.device)
