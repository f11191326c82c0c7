"""Block-sparse attention (MiniMax-M3): grouped-query attention in which each query reads the blocks of tokens that an indexer picks."""

from collections.abc import Iterator
from dataclasses import replace

from day0.parts import gqa
from day0.parts.gqa import Gqa
from day0.spec.model import Norm, PartSpec, Split, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.rope import Rope
from day0.spec.state import StateSpec


@record
class BlockSparse(PartSpec):
    """One choice of blocks for each key head; the indexer has as many query heads, and one key a token."""

    attention: Gqa  #: how the chosen blocks are attended
    index_dim: int  #: width Q of the indexer's queries and keys
    index_norm: Norm  #: of both
    block: int  #: tokens of a block
    top_k: int  #: blocks chosen for a query
    local: int  #: last blocks, the query's own included, that are always chosen

    @property
    def rope(self) -> Rope | None:
        """Rotation of the attention and of the indexer."""
        return self.attention.rope

    @property
    def index_widths(self) -> dict[str, int]:
        """Rows of the indexer's projections."""
        return {"index_q": self.attention.kv_heads * self.index_dim, "index_k": self.index_dim}


def tensors(m: BlockSparse, D: int) -> Iterator[TensorSpec]:
    yield from gqa.tensors(m.attention, D)
    heads = (Heads(count=m.attention.kv_heads, width=m.index_dim, shared=True),)  # a rank chooses for its own key heads
    for name, rows in m.index_widths.items():
        cut: Split = "column" if name == "index_q" else "none"
        yield TensorSpec(name=name, axes="OI", shape=(rows, D), role="linear", split=cut, heads=heads if cut == "column" else (), group="index")
    for name in m.index_widths:
        yield TensorSpec(name=f"{name}_norm", axes="Q", shape=(m.index_dim,), role="norm")


def state(m: BlockSparse, dtype: str) -> Iterator[StateSpec]:
    yield from gqa.state(m.attention, dtype)
    yield StateSpec(name="index_k", kind="paged", shape=(m.index_dim,), dtype=dtype, use="index")


def sites(m: BlockSparse, D: int, phase: Phase) -> Iterator[Site]:
    a = m.attention
    yield Site(op="linear", label="index", phase=phase, sizes={"O": sum(m.index_widths.values()), "I": D}, weights=tuple(m.index_widths))
    for name in m.index_widths:
        yield norm_site(m.index_norm, f"{name}_norm", phase, {"D": m.index_dim})
    if m.rope:
        sizes = {"H": a.kv_heads + 1, "Q": m.index_dim, "R": m.rope.dim}
        yield Site(op="rotary", label="index", phase=phase, sizes=sizes, options={"interleaved": m.rope.interleaved})
    options = {"block": m.block, "local": m.local}
    sizes = {"H": a.kv_heads, "Q": m.index_dim, "K": m.top_k}
    yield Site(op="choose_blocks", label="choose", phase=phase, sizes=sizes, options=options)
    for site in gqa.sites(a, D, phase):
        if site.op == "paged_attention":
            sizes = {**site.sizes, "K": m.top_k}
            yield replace(site, op="block_sparse_attention", sizes=sizes, options={"block": m.block})
        else:
            yield site


PART = Part(tensors=tensors, state=state, sites=sites, cut=("attention.heads", "attention.kv_heads"))
