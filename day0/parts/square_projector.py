"""Squares of neighbouring patches become one embedding by a convolution that covers a square, and a gated network (GLM-5.3-Flash)."""

from collections.abc import Iterator

from day0.parts.dense_ffn import linears, network_sites
from day0.parts.pre_norm import norm_tensors
from day0.spec.activation import Activation
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class SquareProjector(PartSpec):
    """network(gelu(norm(proj(convolution(final(x)))))); patches come square by square."""

    merge: int  #: patches along each side of a square
    out: int  #: width of the embeddings
    width: int  #: F of the network
    activation: Activation  #: of its gate
    final: Norm  #: of the tower
    norm: Norm  #: after the projection
    between: Activation  #: after that norm


def tensors(m: SquareProjector, D: int) -> Iterator[TensorSpec]:
    yield from norm_tensors(m.final, "final", D)
    yield TensorSpec(name="square", axes="OIJJ", shape=(m.out, D, m.merge, m.merge), role="conv")
    yield TensorSpec(name="square_bias", axes="O", shape=(m.out,), role="bias")
    yield TensorSpec(name="proj", axes="OI", shape=(m.out, m.out), role="linear")
    yield from norm_tensors(m.norm, "norm", m.out)
    yield from linears(m.width, m.out)


def state(m: SquareProjector, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(m: SquareProjector, D: int, phase: Phase) -> Iterator[Site]:
    yield norm_site(m.final, "final", phase, {"D": D})
    yield Site(op="linear", label="square", phase=phase, sizes={"O": m.out, "I": D * m.merge**2}, weights=("square",))
    yield Site(op="linear", label="proj", phase=phase, sizes={"O": m.out, "I": m.out}, weights=("proj",))
    yield norm_site(m.norm, "norm", phase, {"D": m.out})
    yield Site(op="activation", label="between", phase=phase, sizes={"F": m.out}, options={"activation": m.between})
    yield from network_sites(m.width, m.out, m.activation, phase)


PART = Part(tensors=tensors, state=state, sites=sites)
