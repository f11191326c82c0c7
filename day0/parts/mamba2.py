"""Mamba-2 (arXiv 2405.21060, §7): a state-space model with one decay a head that depends on the token."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.state import StateSpec, wide


@record
class Mamba2(PartSpec):
    """One projection gives gate, values with the groups' b and c, and step sizes; a matrix a head is the memory."""

    heads: int  #: H
    head_dim: int  #: width V of a head
    groups: int  #: G, of heads that share b and c, and of the output's norm
    state_dim: int  #: width Q of b and c
    taps: int  #: tokens J that the convolution sees, the current one included
    least_step: float  #: lower limit of the step size
    bias: bool  #: whether the projections have one
    conv_bias: bool  #: whether the convolution has one
    norm: Norm  #: of the gated output, group by group

    @property
    def width(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Of the convolution: values, b and c."""
        return self.width + 2 * self.groups * self.state_dim

    @property
    def cuts(self) -> tuple[tuple[Heads, ...], tuple[Heads, ...], tuple[Heads, ...]]:
        """Heads of gate, convolved channels and step sizes; ranks beyond the groups hold copies of b and c."""
        values, groups = Heads(count=self.heads, width=self.head_dim), Heads(count=self.groups, width=self.state_dim, shared=True)
        return (values,), (values, groups, groups), (Heads(count=self.heads, width=1),)

    @property
    def rows(self) -> tuple[int, int, int]:
        """Of the projection: gate, convolved channels, step sizes."""
        return self.width, self.channels, self.heads


def tensors(m: Mamba2, D: int) -> Iterator[TensorSpec]:
    values, convolved, steps = m.cuts
    inputs = (*values, *convolved, *steps)
    yield TensorSpec(name="inputs", axes="OI", shape=(sum(m.rows), D), role="linear", split="column", heads=inputs)
    yield TensorSpec(name="conv", axes="CJ", shape=(m.channels, m.taps), role="conv", split="column", heads=convolved)
    if m.conv_bias:
        yield TensorSpec(name="conv_bias", axes="C", shape=(m.channels,), role="bias", split="column", heads=convolved)
    for name in ("rate_log", "step_bias", "skip"):
        yield TensorSpec(name=name, axes="H", shape=(m.heads,), role="bias", split="column", heads=steps, precision="float32")
    yield TensorSpec(name="o_norm", axes="O", shape=(m.width,), role="norm", split="column", heads=values)
    yield TensorSpec(name="o", axes="OI", shape=(D, m.width), role="linear", split="row", heads=values)
    if m.bias:
        yield TensorSpec(name="inputs_bias", axes="O", shape=(sum(m.rows),), role="bias", split="column", heads=inputs)
        yield TensorSpec(name="o_bias", axes="O", shape=(D,), role="bias")


def state(m: Mamba2, dtype: str) -> Iterator[StateSpec]:
    shape, heads = (m.heads, m.state_dim, m.head_dim), (Heads(count=m.heads, width=m.state_dim * m.head_dim),)
    yield StateSpec(name="memory", kind="recurrent", shape=shape, dtype=wide(dtype), heads=heads)
    yield StateSpec(name="conv", kind="conv", shape=(m.taps - 1, m.channels), dtype=dtype, heads=m.cuts[1])


def sites(m: Mamba2, D: int, phase: Phase) -> Iterator[Site]:
    yield Site(op="linear", label="inputs", phase=phase, sizes={"O": sum(m.rows), "I": D}, weights=("inputs",))
    yield Site(op="short_convolution", label="conv", phase=phase, sizes={"C": m.channels, "J": m.taps}, weights=("conv",))
    heads = {"H": m.heads, "G": m.groups, "Q": m.state_dim, "V": m.head_dim}
    yield Site(op="selective_scan", label="memory", phase=phase, sizes=heads)
    sizes = {"H": m.groups, "V": m.width // m.groups}
    yield Site(op="gated_rms_norm", label="o_norm", phase=phase, sizes=sizes, options={"gate_first": True}, weights=("o_norm",))
    yield Site(op="linear", label="o", phase=phase, sizes={"O": D, "I": m.width}, weights=("o",))


PART = Part(tensors=tensors, state=state, sites=sites, cut=("heads", "groups"))
