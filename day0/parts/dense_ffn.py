"""Gated feed-forward network: down(activation(gate(x)) · up(x)) (GLU variants, arXiv 2002.05202)."""

from collections.abc import Iterator

from day0.spec.model import PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class DenseFfn(PartSpec):
    """One network for every token."""

    width: int  #: F
    activation: str  #: of the gate: "silu"
    bias: bool = False  #: whether the three projections have one


def projections(width: int, D: int) -> dict[str, tuple[int, int]]:
    """Shapes (out, in) of the three matrices."""
    return {"gate": (width, D), "up": (width, D), "down": (D, width)}


def tensors(f: DenseFfn, D: int) -> Iterator[TensorSpec]:
    for name, shape in projections(f.width, D).items():
        yield TensorSpec(name=name, axes="OI", shape=shape, role="linear", split="row" if name == "down" else "column")
        if f.bias:
            yield TensorSpec(name=f"{name}_bias", axes="O", shape=shape[:1], role="bias")


def state(f: DenseFfn, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(f: DenseFfn, D: int, phase: Phase) -> Iterator[Site]:
    for name, (rows, columns) in projections(f.width, D).items():
        yield Site(op="linear", label=name, phase=phase, sizes={"O": rows, "I": columns}, weights=(name,))
    options = {"activation": f.activation}
    yield Site(op="gated_activation", label="activation", phase=phase, sizes={"F": f.width}, options=options)


PART = Part(tensors=tensors, state=state, sites=sites)
