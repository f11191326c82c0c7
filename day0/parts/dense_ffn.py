"""Feed-forward network: down(activation(gate(x)) · up(x)) (GLU variants, arXiv 2002.05202), or down(activation(up(x)))."""

from collections.abc import Iterator

from day0.spec.activation import Activation
from day0.spec.model import PartSpec, Split, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class DenseFfn(PartSpec):
    """One network for every token."""

    width: int  #: F
    activation: Activation  #: of the gate, or of the only projection up
    bias: bool = False  #: whether the projections have one


def projections(width: int, D: int) -> dict[str, tuple[int, int]]:
    """Shapes (out, in) of the three matrices."""
    return {"gate": (width, D), "up": (width, D), "down": (D, width)}


def linears(width: int, D: int, place: str = "", *, gated: bool = True) -> Iterator[TensorSpec]:
    """The matrices of a network; `place` is put before their names."""
    for name, shape in projections(width, D).items():
        if name == "down":
            yield TensorSpec(name=place + name, axes="OI", shape=shape, role="linear", split="row")
        elif gated:
            yield TensorSpec(name=place + name, axes="OI", shape=shape, role="linear", split="column", group=f"{place}gate_up")
        elif name == "up":
            yield TensorSpec(name=place + name, axes="OI", shape=shape, role="linear", split="column")


def tensors(f: DenseFfn, D: int) -> Iterator[TensorSpec]:
    yield from linears(f.width, D, gated=f.activation.gated)
    for name, shape in projections(f.width, D).items() if f.bias else ():
        if f.activation.gated or name != "gate":
            group = "gate_up_bias" if f.activation.gated and name != "down" else ""
            split: Split = "none" if name == "down" else "column"
            yield TensorSpec(name=f"{name}_bias", axes="O", shape=shape[:1], role="bias", split=split, group=group)


def state(f: DenseFfn, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def network_sites(width: int, D: int, activation: Activation, phase: Phase, place: str = "") -> Iterator[Site]:
    """The calls of a network, gated or not; `place` is put before their labels and weights."""
    options = {"activation": activation}
    if activation.gated:
        pair = (f"{place}gate", f"{place}up")
        yield Site(op="linear", label=f"{place}gate_up", phase=phase, sizes={"O": 2 * width, "I": D}, weights=pair)
        yield Site(op="gated_activation", label=f"{place}activation", phase=phase, sizes={"F": width}, options=options)
    else:
        yield Site(op="linear", label=f"{place}up", phase=phase, sizes={"O": width, "I": D}, weights=(f"{place}up",))
        yield Site(op="activation", label=f"{place}activation", phase=phase, sizes={"F": width}, options=options)
    yield Site(op="linear", label=f"{place}down", phase=phase, sizes={"O": D, "I": width}, weights=(f"{place}down",))


def sites(f: DenseFfn, D: int, phase: Phase) -> Iterator[Site]:
    yield from network_sites(f.width, D, f.activation, phase)


PART = Part(tensors=tensors, state=state, sites=sites, cut=("width",))
