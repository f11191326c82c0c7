"""Sparse attention of Qwen's experimental models: gated grouped-query attention to the tokens of the blocks that an indexer picks.

A block's key is the mean of its tokens' keys, normed and rotated by the block's first position; the tokens after the last whole block are
always read.
"""

from collections.abc import Iterator
from dataclasses import replace

from day0.parts import gqa
from day0.parts.gated_attention import GatedAttention
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.rope import Rope
from day0.spec.state import StateSpec


@record
class Qsa(PartSpec):
    """One choice of blocks for all heads."""

    attention: GatedAttention  #: how the chosen tokens are attended
    index_heads: int  #: query heads H of the indexer; it has one key head
    index_dim: int  #: width Q of its queries and keys
    index_norm: Norm  #: of both
    block: int  #: tokens of a block
    top_k: int  #: blocks chosen for a query

    @property
    def rope(self) -> Rope | None:
        """Rotation of the attention and of the indexer."""
        return self.attention.rope


def tensors(m: Qsa, D: int) -> Iterator[TensorSpec]:
    yield from gqa.tensors(m.attention, D)
    yield TensorSpec(name="index_qk", axes="OI", shape=((m.index_heads + 1) * m.index_dim, D), role="linear")
    for name in ("index_q_norm", "index_k_norm"):
        yield TensorSpec(name=name, axes="Q", shape=(m.index_dim,), role="norm")


def state(m: Qsa, dtype: str) -> Iterator[StateSpec]:
    yield from gqa.state(m.attention, dtype)
    yield StateSpec(name="index", kind="compressed", shape=(m.index_dim,), dtype=dtype, every=m.block, use="index")
    yield StateSpec(name="index_tail", kind="conv", shape=(m.block - 1, m.index_dim), dtype=dtype)


def sites(m: Qsa, D: int, phase: Phase) -> Iterator[Site]:
    sizes = {"O": (m.index_heads + 1) * m.index_dim, "I": D}
    yield Site(op="linear", label="index_qk", phase=phase, sizes=sizes, weights=("index_qk",))
    for name, heads in (("index_q", m.index_heads), ("index_k", 1)):
        yield norm_site(m.index_norm, f"{name}_norm", phase, {"D": m.index_dim})
        if m.rope:
            sizes = {"H": heads, "Q": m.index_dim, "R": m.rope.dim}
            yield Site(op="rotary", label=name, phase=phase, sizes=sizes, options={"interleaved": m.rope.interleaved})
    sizes = {"H": m.index_heads, "Q": m.index_dim, "K": m.top_k}
    yield Site(op="choose_entries", label="index", phase=phase, sizes=sizes, options={"every": m.block})
    for site in gqa.sites(m.attention, D, phase):
        if site.op == "paged_attention":
            yield replace(site, op="block_sparse_attention", sizes={**site.sizes, "K": (m.top_k + 1) * m.block - 1}, options={"block": 1})
        else:
            yield site


PART = Part(tensors=tensors, state=state, sites=sites, cut=("attention.heads", "attention.kv_heads"))
