"""Kimi Delta Attention (arXiv 2510.26692, §3): linear attention by the delta rule, with one decay for each channel."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, Split, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.state import StateSpec, wide

CONVOLUTIONS = ("q_conv", "k_conv", "v_conv")


@record
class Kda(PartSpec):
    """Queries, keys and values pass a short convolution; a matrix a head is the only memory of the past."""

    heads: int  #: H, of queries, keys and values alike
    head_dim: int  #: width of each of them
    taps: int  #: tokens J that the convolutions see, the current one included
    decay_rank: int  #: width between the two maps that give the decay
    gate_rank: int | None  #: the same for the output gate; None where it has one full map
    floor: float | None = None  #: least log decay; None where it is unbounded
    norm: Norm  #: of each head's output

    @property
    def width(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    def cut(self, width: int) -> tuple[Heads, ...]:
        """The heads, each of `width`."""
        return (Heads(count=self.heads, width=width),)

    @property
    def inputs(self) -> dict[str, int]:
        """Rows of the maps that read the layer's input."""
        gate = {"g": self.width} if self.gate_rank is None else {"g_a": self.gate_rank}
        return {"q": self.width, "k": self.width, "v": self.width, "f_a": self.decay_rank, "beta": self.heads, **gate}


def tensors(m: Kda, D: int) -> Iterator[TensorSpec]:
    for name, rows in m.inputs.items():
        split: Split = "none" if name.endswith("_a") else "column"
        yield TensorSpec(name=name, axes="OI", shape=(rows, D), role="linear", split=split, heads=m.cut(rows // m.heads), group="inputs")
    heads = m.cut(m.head_dim)
    for name in CONVOLUTIONS:
        shape = (m.width, m.taps)
        yield TensorSpec(name=name, axes="CJ", shape=shape, role="conv", split="column", heads=heads, precision="float32", group="conv")
    yield TensorSpec(name="f_b", axes="OI", shape=(m.width, m.decay_rank), role="linear", split="column", heads=heads)
    yield TensorSpec(name="rate_log", axes="H", shape=(m.heads,), role="bias", split="column", heads=m.cut(1), precision="float32")
    yield TensorSpec(name="decay_bias", axes="O", shape=(m.width,), role="bias", split="column", heads=heads, precision="float32")
    if m.gate_rank is not None:
        yield TensorSpec(name="g_b", axes="OI", shape=(m.width, m.gate_rank), role="linear", split="column", heads=heads)
    yield TensorSpec(name="o_norm", axes="V", shape=(m.head_dim,), role="norm", precision="float32")
    yield TensorSpec(name="o", axes="OI", shape=(D, m.width), role="linear", split="row", heads=heads)


def state(m: Kda, dtype: str) -> Iterator[StateSpec]:
    shape = (m.heads, m.head_dim, m.head_dim)
    yield StateSpec(name="memory", kind="recurrent", shape=shape, dtype=wide(dtype), heads=m.cut(m.head_dim**2))
    yield StateSpec(name="conv", kind="conv", shape=(m.taps - 1, 3 * m.width), dtype=dtype, heads=3 * m.cut(m.head_dim))


def sites(m: Kda, D: int, phase: Phase) -> Iterator[Site]:
    yield Site(op="linear", label="inputs", phase=phase, sizes={"O": sum(m.inputs.values()), "I": D}, weights=tuple(m.inputs))
    yield Site(op="short_convolution", label="conv", phase=phase, sizes={"C": 3 * m.width, "J": m.taps}, weights=CONVOLUTIONS)
    yield Site(op="linear", label="f_b", phase=phase, sizes={"O": m.width, "I": m.decay_rank}, weights=("f_b",))
    heads = {"H": m.heads, "N": m.heads, "Q": m.head_dim, "V": m.head_dim}
    yield Site(op="log_decay", label="decay", phase=phase, sizes={"H": m.heads, "Q": m.head_dim})
    yield Site(op="delta_rule", label="memory", phase=phase, sizes=heads, options={"channels": True})
    if m.gate_rank is not None:
        yield Site(op="linear", label="g_b", phase=phase, sizes={"O": m.width, "I": m.gate_rank}, weights=("g_b",))
    yield Site(op="gated_rms_norm", label="o_norm", phase=phase, sizes={"H": m.heads, "V": m.head_dim}, weights=("o_norm",))
    yield Site(op="linear", label="o", phase=phase, sizes={"O": D, "I": m.width}, weights=("o",))


PART = Part(tensors=tensors, state=state, sites=sites, cut=("heads",))
