"""Gated DeltaNet (arXiv 2412.06464): linear attention by the delta rule, with one decay a head."""

from collections.abc import Iterator
from typing import Literal

from day0.spec.model import Norm, PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.state import StateSpec, wide


@record
class Gdn(PartSpec):
    """Several value heads share one query and key head; one short convolution passes over all three."""

    key_heads: int  #: query and key heads H
    value_heads: int  #: value heads N
    key_dim: int  #: width Q of a query or key head
    value_dim: int  #: width V of a value head
    taps: int  #: tokens J that the convolution sees, the current one included
    grouped: bool  #: projections hold, key head by key head, its share of q, k, v and gate (of beta and decay); else all of each in turn
    norm: Norm  #: of each head's output
    gate: Literal["silu", "sigmoid"] = "silu"  #: function of the output's gate

    @property
    def widths(self) -> dict[str, int]:
        """Channels of queries, keys, values and gate."""
        key, value = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        return {"q": key, "k": key, "v": value, "z": value}

    @property
    def channels(self) -> int:
        """Of the convolution: queries, keys and values."""
        return sum(self.widths.values()) - self.widths["z"]

    @property
    def cuts(self) -> dict[str, tuple[Heads, ...]]:
        """Heads of queries, keys and values; of gate, beta and decay; and of the projections that hold several of them."""
        keys, ratio = Heads(count=self.key_heads, width=self.key_dim), self.value_heads // self.key_heads
        convolved = (keys, keys, Heads(count=self.value_heads, width=self.value_dim))
        one = (Heads(count=self.value_heads, width=1),)
        grouped = (Heads(count=self.key_heads, width=2 * self.key_dim + 2 * ratio * self.value_dim),)
        pairs = (Heads(count=self.key_heads, width=2 * ratio),)
        return {"qkv": convolved, "z": convolved[2:], "beta": one, "decay": one, "qkvz": grouped, "ba": pairs}

    @property
    def inputs(self) -> dict[str, int]:
        """Rows of the maps that read the layer's input."""
        if self.grouped:
            return {"qkvz": self.channels + self.widths["z"], "ba": 2 * self.value_heads}
        return {"qkv": self.channels, "z": self.widths["z"], "beta": self.value_heads, "decay": self.value_heads}


def tensors(m: Gdn, D: int) -> Iterator[TensorSpec]:
    for name, rows in m.inputs.items():
        yield TensorSpec(name=name, axes="OI", shape=(rows, D), role="linear", split="column", heads=m.cuts[name], group="inputs")
    yield TensorSpec(name="conv", axes="CJ", shape=(m.channels, m.taps), role="conv", split="column", heads=m.cuts["qkv"])
    for name in ("rate_log", "decay_bias"):
        shape, heads = (m.value_heads,), m.cuts["decay"]
        yield TensorSpec(name=name, axes="N", shape=shape, role="bias", split="column", heads=heads, precision="float32")
    yield TensorSpec(name="o_norm", axes="V", shape=(m.value_dim,), role="norm")
    yield TensorSpec(name="o", axes="OI", shape=(D, m.widths["v"]), role="linear", split="row", heads=m.cuts["z"])


def state(m: Gdn, dtype: str) -> Iterator[StateSpec]:
    shape, heads = (m.value_heads, m.key_dim, m.value_dim), (Heads(count=m.value_heads, width=m.key_dim * m.value_dim),)
    yield StateSpec(name="memory", kind="recurrent", shape=shape, dtype=wide(dtype), heads=heads)
    yield StateSpec(name="conv", kind="conv", shape=(m.taps - 1, m.channels), dtype=dtype, heads=m.cuts["qkv"])


def sites(m: Gdn, D: int, phase: Phase) -> Iterator[Site]:
    yield Site(op="linear", label="inputs", phase=phase, sizes={"O": sum(m.inputs.values()), "I": D}, weights=tuple(m.inputs))
    yield Site(op="short_convolution", label="conv", phase=phase, sizes={"C": m.channels, "J": m.taps}, weights=("conv",))
    yield Site(op="log_decay", label="decay", phase=phase, sizes={"H": m.value_heads, "Q": 1})
    heads = {"H": m.key_heads, "N": m.value_heads, "Q": m.key_dim, "V": m.value_dim}
    yield Site(op="delta_rule", label="memory", phase=phase, sizes=heads, options={"channels": False})
    yield Site(op="gated_rms_norm", label="o_norm", phase=phase, sizes={"H": m.value_heads, "V": m.value_dim}, weights=("o_norm",))
    yield Site(op="linear", label="o", phase=phase, sizes={"O": D, "I": m.widths["v"]}, weights=("o",))


PART = Part(tensors=tensors, state=state, sites=sites, cut=("key_heads", "value_heads"))
