"""Attention of a tower: every patch of a view sees every other; the position of a patch is its row and column."""

from collections.abc import Iterator

from day0.spec.axial import AxialRope
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class VisionAttention(PartSpec):
    """Softmax attention without a mask and without state; projections have biases."""

    heads: int  #: H
    dim: int  #: width of a query, key or value head
    rope: AxialRope  #: rotation of queries and keys
    qk_norm: Norm | None = None  #: of each head of queries and keys before rotation
    bias: bool = True  #: whether the projections have a bias

    @property
    def width(self) -> int:
        """Rows of each projection."""
        return self.heads * self.dim


def tensors(m: VisionAttention, D: int) -> Iterator[TensorSpec]:
    for name in "qkv":
        yield TensorSpec(name=name, axes="OI", shape=(m.width, D), role="linear", group="qkv")
    for name in "qkv" if m.bias else "":
        yield TensorSpec(name=f"{name}_bias", axes="O", shape=(m.width,), role="bias", group="qkv_bias")
    yield TensorSpec(name="o", axes="OI", shape=(D, m.width), role="linear")
    if m.bias:
        yield TensorSpec(name="o_bias", axes="O", shape=(D,), role="bias")
    for name in "qk" if m.qk_norm else "":
        yield TensorSpec(name=f"{name}_norm", axes="Q", shape=(m.dim,), role="norm")


def state(m: VisionAttention, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(m: VisionAttention, D: int, phase: Phase) -> Iterator[Site]:
    yield Site(op="linear", label="qkv", phase=phase, sizes={"O": 3 * m.width, "I": D}, weights=("q", "k", "v"))
    for name in "qk" if m.qk_norm else "":
        yield norm_site(m.qk_norm, f"{name}_norm", phase, {"D": m.dim})  # type: ignore[arg-type]
    sizes = {"H": 2 * m.heads, "Q": m.dim, "R": m.rope.dim}
    yield Site(op="rotary", label="qk", phase=phase, sizes=sizes, options={"interleaved": m.rope.interleaved})
    yield Site(op="full_attention", label="attention", phase=phase, sizes={"H": m.heads, "Q": m.dim})
    yield Site(op="linear", label="o", phase=phase, sizes={"O": D, "I": m.width}, weights=("o",))


PART = Part(tensors=tensors, state=state, sites=sites)
