"""Pixels of patches become vectors (Vision Transformer, arXiv 2010.11929, §3.1), with learned positions that fit any size of image."""

from collections.abc import Iterator
from typing import Literal

from day0.parts.pre_norm import norm_tensors
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec

CHANNELS = 3  # red, green, blue


@record
class PositionGrid:
    """A learned vector for each place of a square, resampled to the rows and columns of an image."""

    side: int  #: places along each side
    kernel: Literal["bilinear", "bicubic"]  #: how vectors between places are found
    corners: bool = False  #: the first and last places lie on the image's edges, not half a place inside
    square: bool = False  #: stored with an axis for rows and one for columns, not one for both


@record
class PatchEmbedding(PartSpec):
    """A linear map of the pixels of each patch, positions, and a norm."""

    side: int  #: pixels along each side of a patch
    frames: int  #: times that a still image is repeated in a patch
    bias: bool  #: whether the map has one
    grid: PositionGrid | None  #: learned positions; None where only rotations tell them
    merge: int  #: patches come in squares of merge × merge, row by row within one; 1: row by row
    norm: Norm | None = None  #: at the end

    @property
    def pixels(self) -> int:
        """Numbers that describe one patch."""
        return CHANNELS * self.frames * self.side**2


def tensors(p: PatchEmbedding, D: int) -> Iterator[TensorSpec]:
    shape = (D, CHANNELS, p.frames, p.side, p.side)
    yield TensorSpec(name="proj", axes="OIJJJ", shape=shape, role="conv")
    if p.bias:
        yield TensorSpec(name="proj_bias", axes="O", shape=(D,), role="bias")
    if p.grid:
        places = (p.grid.side, p.grid.side) if p.grid.square else (p.grid.side**2,)
        yield TensorSpec(name="grid", axes="J" * len(places) + "D", shape=(*places, D), role="table")
    if p.norm:
        yield from norm_tensors(p.norm, "norm", D)


def state(p: PatchEmbedding, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: PatchEmbedding, D: int, phase: Phase) -> Iterator[Site]:
    yield Site(op="linear", label="proj", phase=phase, sizes={"O": D, "I": p.pixels}, weights=("proj",))
    if p.grid:
        yield Site(op="resample_grid", label="grid", phase=phase, sizes={"J": p.grid.side, "D": D}, options={"kernel": p.grid.kernel})
    if p.norm:
        yield norm_site(p.norm, "norm", phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
