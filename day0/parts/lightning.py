"""Lightning attention with a gated output (MiniMax-01, arXiv 2501.08313, §2.2)."""

from collections.abc import Iterator

from day0.spec.activation import Activation
from day0.spec.model import Norm, PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.state import StateSpec, wide


@record
class Lightning(PartSpec):
    """Linear attention whose heads forget at fixed rates, slower in later layers."""

    heads: int  #: H, of queries, keys and values alike
    head_dim: int  #: width of each of them
    slopes: tuple[float, ...]  #: log decay a token of each head, negated
    activation: Activation  #: of queries, keys and values
    norm: Norm  #: of the output, over all heads together

    def cut(self, width: int) -> tuple[Heads, ...]:
        """The heads, each of `width`."""
        return (Heads(count=self.heads, width=width),)

    @property
    def width(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim


def slopes(heads: int, layer: int, layers: int) -> tuple[float, ...]:
    """Those of ALiBi (arXiv 2108.12409), scaled down linearly with depth to nearly nothing."""
    depth = 1 - layer / (layers - 1 + 1e-5) + 1e-5
    return tuple(2.0 ** (-8 * (head + 1) / heads) * depth for head in range(heads))


def tensors(m: Lightning, D: int) -> Iterator[TensorSpec]:
    heads = m.cut(m.head_dim)
    yield TensorSpec(name="qkv", axes="OI", shape=(3 * m.width, D), role="linear", split="column", heads=3 * heads, group="inputs")
    yield TensorSpec(name="gate", axes="OI", shape=(m.width, D), role="linear", split="column", heads=heads, group="inputs")
    yield TensorSpec(name="o_norm", axes="O", shape=(m.width,), role="norm", split="column", heads=heads)
    yield TensorSpec(name="o", axes="OI", shape=(D, m.width), role="linear", split="row", heads=heads)


def state(m: Lightning, dtype: str) -> Iterator[StateSpec]:
    shape = (m.heads, m.head_dim, m.head_dim)
    yield StateSpec(name="memory", kind="recurrent", shape=shape, dtype=wide(dtype), heads=m.cut(m.head_dim**2))


def sites(m: Lightning, D: int, phase: Phase) -> Iterator[Site]:
    yield Site(op="linear", label="inputs", phase=phase, sizes={"O": 4 * m.width, "I": D}, weights=("qkv", "gate"))
    yield Site(op="activation", label="activation", phase=phase, sizes={"F": 3 * m.width}, options={"activation": m.activation})
    heads = {"H": m.heads, "Q": m.head_dim, "V": m.head_dim}
    yield Site(op="lightning_attention", label="memory", phase=phase, sizes=heads)
    yield Site(op="gated_rms_norm", label="o_norm", phase=phase, sizes={"H": 1, "V": m.width}, weights=("o_norm",))
    yield Site(op="linear", label="o", phase=phase, sizes={"O": D, "I": m.width}, weights=("o",))


PART = Part(tensors=tensors, state=state, sites=sites, cut=("heads", "slopes"))
