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


def linears(width: int, D: int, place: str = "") -> Iterator[TensorSpec]:
    """The three matrices of a gated network; `place` is put before their names."""
    for name, shape in projections(width, D).items():
        split, group = ("row", "") if name == "down" else ("column", f"{place}gate_up")
        yield TensorSpec(name=place + name, axes="OI", shape=shape, role="linear", split=split, group=group)  # type: ignore[arg-type]


def tensors(f: DenseFfn, D: int) -> Iterator[TensorSpec]:
    yield from linears(f.width, D)
    for name, shape in projections(f.width, D).items() if f.bias else ():
        group = "" if name == "down" else "gate_up_bias"
        yield TensorSpec(name=f"{name}_bias", axes="O", shape=shape[:1], role="bias", group=group)


def state(f: DenseFfn, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def gated_sites(width: int, D: int, activation: str, phase: Phase, place: str = "") -> Iterator[Site]:
    """The calls of a gated network; `place` is put before their labels and weights."""
    pair = (f"{place}gate", f"{place}up")
    yield Site(op="linears", label=f"{place}gate_up", phase=phase, sizes={"O": 2 * width, "I": D}, weights=pair)
    options = {"activation": activation}
    yield Site(op="gated_activation", label=f"{place}activation", phase=phase, sizes={"F": width}, options=options)
    yield Site(op="linear", label=f"{place}down", phase=phase, sizes={"O": D, "I": width}, weights=(f"{place}down",))


def sites(f: DenseFfn, D: int, phase: Phase) -> Iterator[Site]:
    yield from gated_sites(f.width, D, f.activation, phase)


PART = Part(tensors=tensors, state=state, sites=sites)
