"""Banks of packed experts that stay on disk: an expert is read when it is asked for."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from day0.engine.footprint import at_rest
from day0.engine.loading import entry, fill
from day0.engine.release import Located
from day0.spec.lazy import torch_dtype
from day0.spec.packed import Packed
from day0.spec.registry import formats
from day0.spec.reports.map_ops import SiteRow


@dataclass(frozen=True)
class OnDemand(Packed):
    """A bank without parts of its own: those of an expert are read by `expert`."""

    located: Located | None = None
    folder: Path = Path()

    @classmethod
    def of(cls, located: Located, folder: Path, dtype: torch.dtype) -> "OnDemand":
        """The bank of one weight."""
        piece, stored = located.pieces[0]
        turned = piece.cut is not None and piece.cut.transpose
        return cls(located.format, {}, stored.block, located.spec.shape, dtype, True, turned, located, folder)

    def expert(self, e: int) -> Packed:
        """One expert, read now."""
        assert self.located is not None
        own = alone(self.located, e)
        parts = {}
        for part, kind, shape in at_rest(own, "float32"):
            whole = torch.empty(shape, dtype=torch_dtype(kind))
            fill(self.folder, own, part, whole)
            parts[part] = whole[0]
        return Packed(self.format, parts, self.block, self.shape[1:], self.dtype, turned=self.turned)


def asks_one_by_one(site: SiteRow) -> bool:
    """Whether a call of experts asks a packed bank for one expert after the other: when it decodes them, and in C."""
    return site.decode or site.provider == "c"


def can_wait(located: Located) -> bool:
    """Whether a weight is a bank of packed experts."""
    return located.spec.role == "expert" and formats().get(located.format).packed


def alone(located: Located, e: int) -> Located:
    """One expert of a bank as a bank of one, whether experts are stored one by one or as entries of one tensor."""
    piece, stored = located.pieces[e if located.stacked else 0]
    if not located.stacked:
        axes = len(stored.shape)
        own = {name: entry(part, e) if part.shape[:1] == stored.shape[:1] else part for name, part in stored.parts.items()}
        stored = stored._replace(shape=stored.shape[1:], parts=own)
        piece = replace(piece, expert=e, cut=piece.cut and replace(piece.cut, axis=piece.cut.axis % axes - 1))
    return replace(located, pieces=((piece, stored),))
