"""Squares of neighbouring patches become one embedding: their vectors side by side through a network of two maps."""

from collections.abc import Iterator

from day0.parts.pre_norm import norm_tensors
from day0.spec.activation import Activation
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class PatchMerger(PartSpec):
    """down(activation(up(the square's vectors, joined)))."""

    merge: int  #: patches along each side of a square
    ordered: bool  #: patches come square by square; else row by row
    norm: Norm  #: before the maps
    joined: bool  #: the norm is over the joined vectors, not over each patch
    activation: Activation  #: between the maps
    out: int  #: width of the embeddings
    final: Norm | None = None  #: of the tower, before all that

    def width(self, D: int) -> int:
        """Of a square's joined vectors."""
        return self.merge**2 * D


def tensors(m: PatchMerger, D: int) -> Iterator[TensorSpec]:
    width = m.width(D)
    if m.final:
        yield from norm_tensors(m.final, "final", D)
    yield from norm_tensors(m.norm, "norm", width if m.joined else D)
    for name, rows in {"up": width, "down": m.out}.items():
        yield TensorSpec(name=name, axes="OI", shape=(rows, width), role="linear")
        yield TensorSpec(name=f"{name}_bias", axes="O", shape=(rows,), role="bias")


def state(m: PatchMerger, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(m: PatchMerger, D: int, phase: Phase) -> Iterator[Site]:
    width = m.width(D)
    if m.final:
        yield norm_site(m.final, "final", phase, {"D": D})
    yield norm_site(m.norm, "norm", phase, {"D": width if m.joined else D})
    yield Site(op="linear", label="up", phase=phase, sizes={"O": width, "I": width}, weights=("up",))
    yield Site(op="activation", label="activation", phase=phase, sizes={"F": width}, options={"activation": m.activation})
    yield Site(op="linear", label="down", phase=phase, sizes={"O": m.out, "I": width}, weights=("down",))


PART = Part(tensors=tensors, state=state, sites=sites)
