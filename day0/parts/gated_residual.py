"""Hyper-connections through low-rank weights (Qwen's experimental models): a sublayer reads a weighed mean of normed streams, channel by
channel, and its result is added to each stream with a factor of its own. Streams are not mixed among each other."""

from collections.abc import Iterator

from day0.spec.model import PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class GatedResidual(PartSpec):
    """The streams around both sublayers of one layer."""

    streams: int  #: M
    rank: int  #: width C between the two maps that weigh channels
    eps: float  #: of the streams' norms, whose weights are stored as their difference from one


@record
class GatedResidualEnd(PartSpec):
    """How the streams become one before the head: as before a sublayer. The last layer's block applies it."""

    streams: int  #: M
    rank: int  #: width C between the two maps that weigh channels


def mixer(p: GatedResidual | GatedResidualEnd, D: int, place: str = "") -> Iterator[TensorSpec]:
    """Weights that make one of the streams."""
    width = p.streams * D
    yield TensorSpec(name=f"{place}norm", axes="I", shape=(width,), role="norm")
    yield TensorSpec(name=f"{place}down", axes="CI", shape=(p.rank, width), role="linear")
    yield TensorSpec(name=f"{place}up", axes="IC", shape=(width, p.rank), role="linear")


def tensors(p: GatedResidual | GatedResidualEnd, D: int) -> Iterator[TensorSpec]:
    if isinstance(p, GatedResidualEnd):
        yield from mixer(p, D)
        return
    for place in ("mixer_", "ffn_"):
        yield from mixer(p, D, place)
        yield TensorSpec(name=f"{place}inject", axes="MI", shape=(p.streams, p.streams * D), role="linear")


def state(p: GatedResidual | GatedResidualEnd, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: GatedResidual | GatedResidualEnd, D: int, phase: Phase) -> Iterator[Site]:
    sizes = {"M": p.streams, "D": D, "I": p.streams * D}
    for place in ("",) if isinstance(p, GatedResidualEnd) else ("mixer_", "ffn_"):
        weights = tuple(f"{place}{name}" for name in ("norm", "down", "up"))
        yield Site(op="hyper_mix", label=f"{place}in", phase=phase, sizes={**sizes, "C": p.rank}, weights=weights)
        if place:
            yield Site(op="hyper_inject", label=f"{place}out", phase=phase, sizes=sizes, weights=(f"{place}norm", f"{place}inject"))


PART = Part(tensors=tensors, state=state, sites=sites)
