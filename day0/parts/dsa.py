"""DeepSeek sparse attention (arXiv 2512.02556, §2.1): latent attention to the tokens that a small indexer picks.

A layer without an indexer reads what the layer `Layer.index_source` picked (arXiv 2603.12201).
"""

from collections.abc import Iterator

from day0.parts import mla
from day0.parts.mla import Mla
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.rope import Rope
from day0.spec.state import StateSpec


@record
class Indexer:
    """Scores tokens by Σ_h w_h(x) · relu(q_h · k): queries from the query latent, one key a token, a weight for each head."""

    heads: int  #: H of the indexer
    head_dim: int  #: width Q of its queries and keys
    interleaved: bool  #: whether the pairs that its rotation turns are neighbours; angles and dimensions are those of the attention
    norm: Norm  #: of the keys
    pool: int = 1  #: tokens whose keys become one: tokens are chosen by whole pools, and those after the last whole pool always

    @property
    def scale(self) -> float:
        """Factor on the weights of the heads."""
        return (self.heads * self.head_dim) ** -0.5


@record
class Dsa(PartSpec):
    """Latent attention of each query to at most `top_k` tokens."""

    attention: Mla  #: how the chosen tokens are attended
    top_k: int  #: tokens chosen for a query; all of them where there are no more
    indexer: Indexer | None = None  #: who chooses; None reuses the choice of another layer

    @property
    def rope(self) -> Rope | None:
        """Rotation of the attention and of the indexer."""
        return self.attention.rope


def tensors(d: Dsa, D: int) -> Iterator[TensorSpec]:
    yield from mla.tensors(d.attention, D)
    if (i := d.indexer) is None:
        return
    rank = d.attention.q_lora_rank
    assert rank is not None, "the indexer reads the query latent"
    yield TensorSpec(name="indexer.q", axes="OC", shape=(i.heads * i.head_dim, rank), role="linear")
    yield TensorSpec(name="indexer.k", axes="OI", shape=(i.head_dim, D), role="linear")
    yield TensorSpec(name="indexer.k_norm", axes="Q", shape=(i.head_dim,), role="norm")
    if i.norm.kind == "layer":
        yield TensorSpec(name="indexer.k_norm_bias", axes="Q", shape=(i.head_dim,), role="bias")
    if i.pool > 1:
        yield TensorSpec(name="indexer.pool_gate", axes="OI", shape=(i.head_dim, D), role="linear")
        yield TensorSpec(name="indexer.pool_bias", axes="SQ", shape=(i.pool, i.head_dim), role="bias", precision="float32")
    yield TensorSpec(name="indexer.weights", axes="HI", shape=(i.heads, D), role="linear", precision="float32")


def state(d: Dsa, dtype: str) -> Iterator[StateSpec]:
    yield from mla.state(d.attention, dtype)
    if (i := d.indexer) is not None and i.pool == 1:
        yield StateSpec(name="index_keys", kind="paged", shape=(i.head_dim,), dtype=dtype, use="index")
    elif i is not None:
        yield StateSpec(name="index_keys", kind="compressed", shape=(i.head_dim,), dtype=dtype, every=i.pool, use="index")
        yield StateSpec(name="index_tail", kind="conv", shape=(i.pool - 1, 2 * i.head_dim), dtype=dtype)


def sites(d: Dsa, D: int, phase: Phase) -> Iterator[Site]:
    m = d.attention
    yield from mla.sites(m, D, phase)
    if d.indexer is not None:
        yield from _index_sites(d.indexer, d, D, phase)
    sizes = {"H": m.heads, "Q": m.qk_nope_head_dim, "V": m.v_head_dim, "C": m.kv_lora_rank, "R": m.qk_rope_head_dim, "K": d.top_k}
    if phase == "prefill":
        yield Site(op="absorb_query", label="absorb", phase=phase, sizes=sizes, weights=("kv_b",))
        yield Site(op="expand_value", label="expand", phase=phase, sizes=sizes, weights=("kv_b",))
    yield Site(op="sparse_latent_attention", label="sparse", phase=phase, sizes=sizes)


def _index_sites(i: Indexer, d: Dsa, D: int, phase: Phase) -> Iterator[Site]:
    rank, rope = d.attention.q_lora_rank or D, d.attention.rope
    sizes = {"O": i.heads * i.head_dim, "I": rank}
    yield Site(op="linear", label="indexer.q", phase=phase, sizes=sizes, weights=("indexer.q",))
    yield Site(op="linear", label="indexer.k", phase=phase, sizes={"O": i.head_dim, "I": D}, weights=("indexer.k",))
    yield norm_site(i.norm, "indexer.k_norm", phase, {"D": i.head_dim})
    if rope:
        for name, heads in (("q", i.heads), ("k", 1)):
            sizes = {"H": heads, "Q": i.head_dim, "R": rope.dim}
            yield Site(op="rotary", label=f"indexer.{name}", phase=phase, sizes=sizes, options={"interleaved": i.interleaved})
    options = {"precision": "float32"}
    size = {"O": i.heads, "I": D}
    yield Site(op="linear", label="indexer.weights", phase=phase, sizes=size, options=options, weights=("indexer.weights",))
    if i.pool == 1:
        yield Site(op="index_scores", label="scores", phase=phase, sizes={"H": i.heads, "Q": i.head_dim})
        yield Site(op="index_select", label="select", phase=phase, sizes={"K": d.top_k})
        return
    size, gate = {"O": i.head_dim, "I": D}, ("indexer.pool_gate",)
    yield Site(op="linear", label="indexer.pool_gate", phase=phase, sizes=size, weights=gate)
    yield Site(op="gated_pool", label="indexer.pool", phase=phase, sizes={"Q": i.head_dim}, weights=("indexer.pool_bias",))
    sizes = {"H": i.heads, "Q": i.head_dim, "K": d.top_k // i.pool}
    yield Site(op="choose_entries", label="select", phase=phase, sizes=sizes, options={"every": i.pool})


PART = Part(tensors=tensors, state=state, sites=sites, cut=("attention.heads",))
