"""Per-layer embedding of n-grams (Qwen's experimental models): hashed token ids pick rows of a large table, which become a value for each
residual stream, weighed by its agreement with a key, and a short dilated convolution over such values."""

from collections.abc import Iterator

from day0.spec.model import PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class NgramEmbedding(PartSpec):
    """What one layer adds to all streams before its sublayers."""

    streams: int  #: M
    channels: int  #: of all streams together
    size: int  #: tokens J of the longest n-gram
    heads: int  #: H, hashes for each token, over all orders from 2 to J
    rows: int  #: of the table
    parts: int  #: P, tensors that the rows are stored in
    width: int  #: of the rows of all heads together
    taps: int  #: of the convolution; they are J tokens apart
    end: int  #: token that ends a text: n-grams do not reach beyond it
    eps: float  #: of the norms, whose weights are stored as their difference from one


def tensors(e: NgramEmbedding, D: int) -> Iterator[TensorSpec]:
    wide = e.streams * D
    yield TensorSpec(name="multipliers", axes="J", shape=(e.size,), role="table", precision="integer")
    yield TensorSpec(name="sizes", axes="H", shape=(e.heads,), role="table", precision="integer")
    yield TensorSpec(name="offsets", axes="H", shape=(e.heads,), role="table", precision="integer")
    shape = (e.parts, e.rows // e.parts, e.width // e.heads)
    yield TensorSpec(name="table", axes="PWD", shape=shape, role="table", split="vocab", used=(e.heads, e.rows))
    yield TensorSpec(name="key", axes="OI", shape=(wide, e.width), role="linear", group="projections")
    yield TensorSpec(name="value", axes="OI", shape=(D, e.width), role="linear", group="projections")
    for name in ("query_norm", "key_norm", "value_norm"):
        yield TensorSpec(name=name, axes="I", shape=(wide,), role="norm")
    yield TensorSpec(name="conv", axes="CJ", shape=(wide, e.taps), role="conv")


def state(e: NgramEmbedding, dtype: str) -> Iterator[StateSpec]:
    yield StateSpec(name="ngram", kind="conv", shape=(e.size - 1,), dtype="I64")
    yield StateSpec(name="ngram_conv", kind="conv", shape=((e.taps - 1) * e.size, e.channels), dtype=dtype)


def sites(e: NgramEmbedding, D: int, phase: Phase) -> Iterator[Site]:
    wide = e.streams * D
    weights = ("multipliers", "sizes", "offsets", "table")
    yield Site(op="ngram_embedding", label="rows", phase=phase, sizes={"H": e.heads, "D": e.width // e.heads}, weights=weights)
    yield Site(op="linear", label="projections", phase=phase, sizes={"O": wide + D, "I": e.width}, weights=("key", "value"))
    sizes = {"M": e.streams, "D": D, "I": wide}
    yield Site(op="ngram_gate", label="gate", phase=phase, sizes=sizes, weights=("query_norm", "key_norm", "value_norm"))
    yield Site(op="short_convolution", label="conv", phase=phase, sizes={"C": wide, "J": e.taps}, weights=("conv",))


PART = Part(tensors=tensors, state=state, sites=sites)
