"""Manifold-constrained hyper-connections (arXiv 2512.24880): several residual streams; each sublayer reads a weighed sum of them, and its
result is spread over them while they are mixed by a doubly stochastic matrix."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec

PLACES = ("mixer", "ffn")


@record
class HyperConnection(PartSpec):
    """The streams around both sublayers of one layer, with a norm before each."""

    norm: Norm  #: kind and epsilon before the sublayers; its epsilon is also that of the streams' weightless norm
    streams: int  #: M
    iterations: int  #: of Sinkhorn's algorithm
    floor: float  #: keeps factors and sums above zero

    @property
    def rows(self) -> int:
        """Rows of one mixer: M factors into the sublayer, M out of it, and M × M between streams."""
        return (2 + self.streams) * self.streams


@record
class HyperHead(PartSpec):
    """How the streams become one before the final norm: a sum like that before a sublayer. The last layer's block applies it."""

    streams: int  #: M


def tensors(p: HyperConnection | HyperHead, D: int) -> Iterator[TensorSpec]:
    if isinstance(p, HyperHead):
        yield TensorSpec(name="mix", axes="OI", shape=(p.streams, p.streams * D), role="router", precision="float32")
        yield TensorSpec(name="base", axes="O", shape=(p.streams,), role="bias", precision="float32")
        yield TensorSpec(name="scale", axes="O", shape=(1,), role="bias", precision="float32")
        return
    for place in PLACES:
        yield TensorSpec(name=f"{place}_norm", axes="D", shape=(D,), role="norm")
        yield TensorSpec(name=f"{place}_mix", axes="OI", shape=(p.rows, p.streams * D), role="router", precision="float32")
        yield TensorSpec(name=f"{place}_base", axes="O", shape=(p.rows,), role="bias", precision="float32")
        yield TensorSpec(name=f"{place}_scale", axes="O", shape=(3,), role="bias", precision="float32")


def state(p: HyperConnection | HyperHead, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: HyperConnection | HyperHead, D: int, phase: Phase) -> Iterator[Site]:
    sizes = {"M": p.streams, "D": D}
    if isinstance(p, HyperHead):
        yield Site(op="hyper_collapse", label="head", phase=phase, sizes=sizes, weights=("mix", "base", "scale"))
        return
    for place in PLACES:
        weights = (f"{place}_mix", f"{place}_base", f"{place}_scale")
        yield Site(op="hyper_collapse", label=f"{place}_in", phase=phase, sizes=sizes, weights=weights)
        yield norm_site(p.norm, f"{place}_norm", phase, {"D": D})
        options = {"iterations": p.iterations}
        yield Site(op="hyper_expand", label=f"{place}_out", phase=phase, sizes=sizes, options=options, weights=weights)


PART = Part(tensors=tensors, state=state, sites=sites)
