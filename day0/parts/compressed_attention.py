"""Attention over a window of single tokens and over compressed entries of all earlier ones (DeepSeek-V4, §2.3).

One vector a token is key and value of all query heads. Each whole run of `every` tokens also leaves one entry, a gated sum of two of its
projections. Layers with a small `every` pool overlapping runs and let an indexer choose entries; others read all of them.
"""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.placement import Heads
from day0.spec.record import record
from day0.spec.rope import Rope
from day0.spec.state import StateSpec, Use


@record
class EntryIndexer:
    """Chooses entries for each query by keys of its own, compressed like the entries."""

    heads: int  #: query heads
    dim: int  #: width of a query or key
    top_k: int  #: entries chosen

    @property
    def scale(self) -> float:
        """Factor on scores: of the dot product and of the heads' weights."""
        return float((self.heads * self.dim) ** -0.5)


@record
class CompressedAttention(PartSpec):
    """One layer's attention; without `every` it sees its window only."""

    heads: int  #: query heads H
    head_dim: int  #: width Q of a query head, and of the vector that is key and value
    q_lora_rank: int  #: width of the query latent
    out_groups: int  #: groups of heads that the output is first projected in
    out_lora_rank: int  #: width that each group is projected to
    window: int  #: tokens seen one by one, the query's own included
    scale: float  #: factor on q·k
    rope: Rope  #: of the last dimensions of each head
    norm: Norm  #: of the query latent, of queries (without a weight), of keys and of entries
    every: int = 0  #: tokens that one entry stands for; 0 where there are no entries
    overlap: bool = False  #: an entry is pooled from its own run and the one before, by two sets of projections
    indexer: EntryIndexer | None = None  #: who chooses entries; None reads all of them

    @property
    def plain(self) -> int:
        """Dimensions of a head that are not rotated; they come first."""
        return self.head_dim - self.rope.dim

    def projected(self, width: int) -> int:
        """Rows of a compressor's projection (and as many of its gate) for entries of `width`."""
        return width * (2 if self.overlap else 1)

    @property
    def tail(self) -> int:
        """Tokens whose projections are kept, because entries that are not complete may need them."""
        return self.every * (2 if self.overlap else 1) - 1

    def compressors(self) -> Iterator[tuple[str, int]]:
        """(name, width of an entry) of the layer's compressors: "compress", "index"."""
        if self.every:
            yield "compress", self.head_dim
        if self.indexer:
            yield "index", self.indexer.dim


def tensors(m: CompressedAttention, D: int) -> Iterator[TensorSpec]:
    yield TensorSpec(name="q_a", axes="CI", shape=(m.q_lora_rank, D), role="linear", group="qkv_a")
    yield TensorSpec(name="kv", axes="QI", shape=(m.head_dim, D), role="linear", group="qkv_a")
    yield TensorSpec(name="q_a_norm", axes="C", shape=(m.q_lora_rank,), role="norm")
    yield TensorSpec(name="kv_norm", axes="Q", shape=(m.head_dim,), role="norm")
    heads, single = (Heads(count=m.heads, width=m.head_dim),), (Heads(count=m.heads, width=1),)
    yield TensorSpec(name="q_b", axes="OI", shape=(m.heads * m.head_dim, m.q_lora_rank), role="linear", split="column", heads=heads)
    yield TensorSpec(name="sinks", axes="H", shape=(m.heads,), role="bias", split="column", heads=single, precision="float32")
    group = (m.out_groups * m.out_lora_rank, m.heads * m.head_dim // m.out_groups)
    groups = (Heads(count=m.out_groups, width=m.out_lora_rank),)
    yield TensorSpec(name="o_a", axes="OI", shape=group, role="linear", split="column", heads=groups)
    yield TensorSpec(name="o_b", axes="OI", shape=(D, m.out_groups * m.out_lora_rank), role="linear", split="row", heads=groups)
    for name, width in m.compressors():
        for leaf in ("kv", "gate"):
            yield TensorSpec(name=f"{name}_{leaf}", axes="OI", shape=(m.projected(width), D), role="linear", group="compressors")
    if m.indexer:
        yield TensorSpec(name="index_weights", axes="HI", shape=(m.indexer.heads, D), role="linear", group="compressors")
        yield TensorSpec(name="index_q", axes="OI", shape=(m.indexer.heads * m.indexer.dim, m.q_lora_rank), role="linear")
    for name, width in m.compressors():
        shape = (m.every, m.projected(width))
        yield TensorSpec(name=f"{name}_bias", axes="SO", shape=shape, role="bias", precision="float32")
        yield TensorSpec(name=f"{name}_norm", axes="Q", shape=(width,), role="norm")


def state(m: CompressedAttention, dtype: str) -> Iterator[StateSpec]:
    yield StateSpec(name="window", kind="window", shape=(m.head_dim,), dtype=dtype, window=m.window, use="latent", exact=m.rope.dim)
    for name, width in m.compressors():
        use: Use = "index" if name == "index" else "latent"
        exact = 0 if name == "index" else m.rope.dim
        yield StateSpec(name=name, kind="compressed", shape=(width,), dtype=dtype, every=m.every, use=use, exact=exact)
        shape = (m.tail, 2 * m.projected(width))
        yield StateSpec(name=f"{name}_tail", kind="conv", shape=shape, dtype=dtype)


def sites(m: CompressedAttention, D: int, phase: Phase) -> Iterator[Site]:
    sizes = {"O": m.q_lora_rank + m.head_dim, "I": D}
    yield Site(op="linear", label="qkv_a", phase=phase, sizes=sizes, weights=("q_a", "kv"))
    yield norm_site(m.norm, "q_a_norm", phase, {"D": m.q_lora_rank})
    yield Site(op="linear", label="q_b", phase=phase, sizes={"O": m.heads * m.head_dim, "I": m.q_lora_rank}, weights=("q_b",))
    yield Site(op="rms_norm", label="q_norm", phase=phase, sizes={"D": m.head_dim}, options={"plus_one": False})
    yield norm_site(m.norm, "kv_norm", phase, {"D": m.head_dim})
    for label, heads in (("q", m.heads), ("kv", 1), ("output", m.heads)):
        yield rotary_site(m, label, heads, phase)
    if m.every:
        yield from _entry_sites(m, D, phase)
    sizes = {"H": m.heads, "Q": m.head_dim, "V": m.head_dim, "K": m.indexer.top_k if m.indexer else 0}
    options = {"window": m.window, "every": m.every}
    yield Site(op="compressed_attention", label="attention", phase=phase, sizes=sizes, options=options)
    group = {"O": m.out_groups * m.out_lora_rank, "I": m.heads * m.head_dim // m.out_groups, "G": m.out_groups}
    yield Site(op="grouped_linear", label="o_a", phase=phase, sizes=group, weights=("o_a",))
    yield Site(op="linear", label="o_b", phase=phase, sizes={"O": D, "I": m.out_groups * m.out_lora_rank}, weights=("o_b",))


def rotary_site(m: CompressedAttention, label: str, heads: int, phase: Phase) -> Site:
    """The call that rotates the last dimensions of `heads` heads."""
    sizes = {"H": heads, "Q": m.rope.dim, "R": m.rope.dim}
    return Site(op="rotary", label=label, phase=phase, sizes=sizes, options={"interleaved": m.rope.interleaved})


def _entry_sites(m: CompressedAttention, D: int, phase: Phase) -> Iterator[Site]:
    weights = tuple(f"{name}_{leaf}" for name, _ in m.compressors() for leaf in ("kv", "gate"))
    rows = sum(2 * m.projected(width) for _, width in m.compressors())
    if m.indexer:
        weights, rows = (*weights, "index_weights"), rows + m.indexer.heads
    yield Site(op="linear", label="compressors", phase=phase, sizes={"O": rows, "I": D}, weights=weights)
    for name, width in m.compressors():
        yield Site(op="gated_pool", label=name, phase=phase, sizes={"Q": width}, weights=(f"{name}_bias",))
        yield norm_site(m.norm, f"{name}_norm", phase, {"D": width})
        yield rotary_site(m, name, 1, phase)
    if m.indexer:
        sizes = {"O": m.indexer.heads * m.indexer.dim, "I": m.q_lora_rank}
        yield Site(op="linear", label="index_q", phase=phase, sizes=sizes, weights=("index_q",))
        yield rotary_site(m, "index_q", m.indexer.heads, phase)
        sizes = {"H": m.indexer.heads, "Q": m.indexer.dim, "K": m.indexer.top_k}
        yield Site(op="choose_entries", label="index", phase=phase, sizes=sizes, options={"every": m.every})


PART = Part(tensors=tensors, state=state, sites=sites, cut=("heads", "out_groups"))
