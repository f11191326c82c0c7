"""Banks of packed experts that stay on disk: an expert is read when it is asked for."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from day0.engine.footprint import at_rest
from day0.engine.loading import fill
from day0.engine.release import Located
from day0.spec.lazy import torch_dtype
from day0.spec.packed import Packed
from day0.spec.registry import formats


@dataclass(frozen=True)
class OnDemand(Packed):
    """A bank without parts of its own: those of an expert are read by `expert`."""

    located: Located | None = None
    folder: Path = Path()

    @classmethod
    def of(cls, located: Located, folder: Path, dtype: torch.dtype) -> "OnDemand":
        """The bank of one weight whose experts are stored one by one; decoded into `dtype`."""
        piece, stored = located.pieces[0]
        turned = piece.cut is not None and piece.cut.transpose
        return cls(located.format, {}, stored.block, located.spec.shape, dtype, True, turned, located, folder)

    def expert(self, e: int) -> Packed:
        """One expert, read now."""
        assert self.located is not None
        own = replace(self.located, pieces=(self.located.pieces[e],))
        parts = {}
        for part, kind, shape in at_rest(own, "float32"):
            whole = torch.empty(shape, dtype=torch_dtype(kind))
            fill(self.folder, own, part, whole)
            parts[part] = whole[0]
        return Packed(self.format, parts, self.block, self.shape[1:], self.dtype, turned=self.turned)


def can_wait(located: Located) -> bool:
    """Whether a weight is a bank of packed experts that are stored one by one."""
    return located.spec.role == "expert" and located.stacked and formats().get(located.format).packed
