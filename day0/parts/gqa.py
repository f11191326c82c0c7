"""Grouped-query attention (arXiv 2305.13245), with multi-head and multi-query attention as its ends."""

from collections.abc import Iterator
from typing import Literal

from day0.spec.model import Norm, PartSpec, Split, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.rope import Rope
from day0.spec.state import Growth, StateSpec


@record
class Temperature:
    """Queries at position p are multiplied by 1 + scale · log(1 + ⌊(p + 1) / floor⌋) (Llama 4; arXiv 2501.19399)."""

    floor: int  #: positions at the start, and steps after it, whose factor is the same
    scale: float  #: how fast the factor grows


@record
class Gqa(PartSpec):
    """Softmax attention in which several query heads read one key and value head."""

    heads: int  #: query heads H
    kv_heads: int  #: key and value heads N
    qk_dim: int  #: width Q of a query or key head
    v_dim: int  #: width V of a value head
    scale: float  #: factor on q·k
    rope: Rope | None  #: rotary embedding of queries and keys; None where positions are not encoded
    bias: bool = False  #: whether q, k and v have a bias
    out_bias: bool = False  #: whether the output projection has one
    qk_norm: Norm | None = None  #: norm of queries and keys before rotation
    qk_norm_scope: Literal["head", "vector"] = "head"  #: each head alone, or the whole projected vector
    clip: float | None = None  #: q, k and v are clamped to ±clip
    window: int | None = None  #: positions that a query sees, its own included; None: all before it
    chunked: bool = False  #: a query sees its own chunk of `window` positions instead
    sinks: bool = False  #: each head has a learned score more in its softmax, without a value
    gate: Literal["head", "element"] | None = None  #: the output is weighed by a map of the input, per head or element
    value_scale: float = 1.0  #: factor on values
    unit_eps: float | None = None  #: epsilon of a norm without weight, over each head of queries and keys once they are rotated
    temperature: Temperature | None = None  #: factor on queries that grows with position
    gate_function: Literal["sigmoid", "softplus"] = "sigmoid"  #: of that map

    @property
    def gate_width(self) -> int:
        """Rows of the gate's map."""
        return self.heads * self.v_dim if self.gate == "element" else self.heads

    @property
    def cuts(self) -> dict[str, tuple[Heads, ...]]:
        """Heads of the projections q, k and v; ranks beyond the key heads hold copies."""
        counts = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        return {name: (Heads(count=counts[name], width=rows // counts[name], shared=name != "q"),) for name, rows in self.widths.items()}

    @property
    def widths(self) -> dict[str, int]:
        """Rows of the projections q, k and v."""
        return {"q": self.heads * self.qk_dim, "k": self.kv_heads * self.qk_dim, "v": self.kv_heads * self.v_dim}


def tensors(m: Gqa, D: int) -> Iterator[TensorSpec]:
    for name, rows in m.widths.items():
        yield TensorSpec(name=name, axes="OI", shape=(rows, D), role="linear", split="column", heads=m.cuts[name], group="qkv")
    for name, rows in m.widths.items() if m.bias else ():
        yield TensorSpec(name=f"{name}_bias", axes="O", shape=(rows,), role="bias", split="column", heads=m.cuts[name], group="qkv_bias")
    out = (Heads(count=m.heads, width=m.v_dim),)
    yield TensorSpec(name="o", axes="OI", shape=(D, m.heads * m.v_dim), role="linear", split="row", heads=out)
    if m.out_bias:
        yield TensorSpec(name="o_bias", axes="O", shape=(D,), role="bias")
    if m.qk_norm:
        for name in ("q", "k"):
            width = m.qk_dim if m.qk_norm_scope == "head" else m.widths[name]
            cut: Split = "none" if m.qk_norm_scope == "head" else "column"
            yield TensorSpec(name=f"{name}_norm", axes="Q", shape=(width,), role="norm", split=cut, heads=m.cuts[name])
    if m.sinks:
        yield TensorSpec(name="sinks", axes="H", shape=(m.heads,), role="bias", split="column", heads=(Heads(count=m.heads, width=1),))
    if m.gate:
        gate = (Heads(count=m.heads, width=m.gate_width // m.heads),)
        yield TensorSpec(name="gate", axes="OI", shape=(m.gate_width, D), role="linear", split="column", heads=gate)


def state(m: Gqa, dtype: str) -> Iterator[StateSpec]:
    kind: Growth = "paged" if m.window is None else "window"
    for name, width in (("k", m.qk_dim), ("v", m.v_dim)):
        heads = (Heads(count=m.kv_heads, width=width, shared=True),)
        yield StateSpec(name=name, kind=kind, shape=(m.kv_heads, width), dtype=dtype, window=m.window, heads=heads, use="attention")


def sites(m: Gqa, D: int, phase: Phase) -> Iterator[Site]:
    sizes = {"O": sum(m.widths.values()), "I": D}
    yield Site(op="linear", label="qkv", phase=phase, sizes=sizes, weights=tuple(m.widths))
    if m.qk_norm:
        for name in ("q", "k"):
            width = m.qk_dim if m.qk_norm_scope == "head" else m.widths[name]
            yield norm_site(m.qk_norm, f"{name}_norm", phase, {"D": width})
    if m.rope:
        sizes = {"H": m.heads + m.kv_heads, "Q": m.qk_dim, "R": m.rope.dim}
        yield Site(op="rotary", label="qk", phase=phase, sizes=sizes, options={"interleaved": m.rope.interleaved})
    if m.unit_eps is not None:
        yield Site(op="rms_norm", label="qk_unit", phase=phase, sizes={"D": m.qk_dim})
    sizes = {"H": m.heads, "N": m.kv_heads, "Q": m.qk_dim, "V": m.v_dim}
    options = {"sinks_H": m.sinks, "window": m.window, "chunked": m.chunked}
    yield Site(op="paged_attention", label="attention", phase=phase, sizes=sizes, options=options)
    if m.gate:
        yield Site(op="linear", label="gate", phase=phase, sizes={"O": m.gate_width, "I": D}, weights=("gate",))
    yield Site(op="linear", label="o", phase=phase, sizes={"O": D, "I": m.heads * m.v_dim}, weights=("o",))


PART = Part(tensors=tensors, state=state, sites=sites, cut=("heads", "kv_heads"))
