"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, §2.1)."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.rope import Rope
from day0.spec.state import StateSpec
from day0.spec.temperature import Temperature


@record
class Mla(PartSpec):
    """Attention whose keys and values are expanded from one latent a token; the state holds that latent and one rotated key."""

    heads: int  #: query heads H
    q_lora_rank: int | None  #: width of the query latent; None projects queries directly
    kv_lora_rank: int  #: width C of the key and value latent
    qk_nope_head_dim: int  #: dimensions of a query or key head that carry no position
    qk_rope_head_dim: int  #: dimensions R that are rotated, shared by all heads of the key
    v_head_dim: int  #: width V of a value head
    scale: float  #: factor on q·k, with the correction for a stretched context
    rope: Rope | None  #: rotation of the R dimensions
    norm: Norm  #: of both latents
    bias: bool = False  #: whether the projections into the latents and out of the heads have a bias
    latent_scale: float = 1.0  #: factor on the normed key and value latent
    temperature: Temperature | None = None  #: growth of queries with their position
    gate: bool = False  #: whether the sigmoid of a linear map of the layer's input weighs the heads' output

    @property
    def qk_dim(self) -> int:
        """Width of a query or key head in expanded form."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def entry(self) -> int:
        """Elements that the state holds for a token."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    def cut(self, width: int) -> tuple[Heads, ...]:
        """The heads, each of `width`."""
        return (Heads(count=self.heads, width=width),)

    @property
    def kv_rows(self) -> int:
        """Rows of the expansion of the latent into keys and values."""
        return self.heads * (self.qk_nope_head_dim + self.v_head_dim)


def tensors(m: Mla, D: int) -> Iterator[TensorSpec]:
    query = D if m.q_lora_rank is None else m.q_lora_rank
    if m.q_lora_rank is not None:
        yield TensorSpec(name="q_a", axes="CI", shape=(m.q_lora_rank, D), role="linear")
        yield TensorSpec(name="q_a_norm", axes="C", shape=(m.q_lora_rank,), role="norm")
        if m.bias:
            yield TensorSpec(name="q_a_bias", axes="C", shape=(m.q_lora_rank,), role="bias")
    heads = m.cut(m.qk_dim)
    yield TensorSpec(name="q_b", axes="OI", shape=(m.heads * m.qk_dim, query), role="linear", split="column", heads=heads)
    yield TensorSpec(name="kv_a", axes="CI", shape=(m.entry, D), role="linear")
    yield TensorSpec(name="kv_a_norm", axes="C", shape=(m.kv_lora_rank,), role="norm")
    heads = m.cut(m.qk_nope_head_dim + m.v_head_dim)
    yield TensorSpec(name="kv_b", axes="OC", shape=(m.kv_rows, m.kv_lora_rank), role="linear", split="column", heads=heads)
    heads = m.cut(m.v_head_dim)
    if m.gate:
        yield TensorSpec(name="gate", axes="OI", shape=(m.heads * m.v_head_dim, D), role="linear", split="column", heads=heads)
    yield TensorSpec(name="o", axes="OI", shape=(D, m.heads * m.v_head_dim), role="linear", split="row", heads=heads)
    if m.bias:
        yield TensorSpec(name="kv_a_bias", axes="C", shape=(m.entry,), role="bias")
        yield TensorSpec(name="o_bias", axes="O", shape=(D,), role="bias")


def state(m: Mla, dtype: str) -> Iterator[StateSpec]:
    yield StateSpec(name="latent", kind="paged", shape=(m.entry,), dtype=dtype, use="latent", exact=m.qk_rope_head_dim)


def sites(m: Mla, D: int, phase: Phase) -> Iterator[Site]:
    yield from _projections(m, D, phase)
    if m.rope:
        for name, heads in (("q", m.heads), ("k", 1)):
            sizes = {"H": heads, "Q": m.qk_rope_head_dim, "R": m.rope.dim}
            yield Site(op="rotary", label=name, phase=phase, sizes=sizes, options={"interleaved": m.rope.interleaved})
    expand = {"O": m.kv_rows, "I": m.kv_lora_rank}
    latent = {"H": m.heads, "Q": m.qk_nope_head_dim, "V": m.v_head_dim, "C": m.kv_lora_rank, "R": m.qk_rope_head_dim}
    if phase == "decode":
        yield Site(op="absorb_query", label="absorb", phase=phase, sizes=latent, weights=("kv_b",))
        yield Site(op="latent_attention", label="attention", phase=phase, sizes=latent)
        yield Site(op="expand_value", label="expand", phase=phase, sizes=latent, weights=("kv_b",))
    else:
        yield Site(op="linear", label="kv_b", phase=phase, sizes=expand, options={"rows": "S"}, weights=("kv_b",))
        sizes = {"H": m.heads, "N": m.heads, "Q": m.qk_dim, "V": m.v_head_dim}
        yield Site(op="attention", label="attention", phase=phase, sizes=sizes)
    if m.gate:
        yield Site(op="linear", label="gate", phase=phase, sizes={"O": m.heads * m.v_head_dim, "I": D}, weights=("gate",))
    yield Site(op="linear", label="o", phase=phase, sizes={"O": D, "I": m.heads * m.v_head_dim}, weights=("o",))


def _projections(m: Mla, D: int, phase: Phase) -> Iterator[Site]:
    query = D if m.q_lora_rank is None else m.q_lora_rank
    if m.q_lora_rank is not None:
        yield Site(op="linear", label="q_a", phase=phase, sizes={"O": m.q_lora_rank, "I": D}, weights=("q_a",))
        yield norm_site(m.norm, "q_a_norm", phase, {"D": m.q_lora_rank})
    yield Site(op="linear", label="q_b", phase=phase, sizes={"O": m.heads * m.qk_dim, "I": query}, weights=("q_b",))
    yield Site(op="linear", label="kv_a", phase=phase, sizes={"O": m.entry, "I": D}, weights=("kv_a",))
    yield norm_site(m.norm, "kv_a_norm", phase, {"D": m.kv_lora_rank})


PART = Part(tensors=tensors, state=state, sites=sites, cut=("heads",))
