"""Residual stream with a norm before each sublayer: x + mixer(norm(x)), then x + ffn(norm(x))."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec

PLACES = ("mixer_norm", "ffn_norm")


@record
class PreNorm(PartSpec):
    """One norm for the mixer and one for the feed-forward network."""

    norm: Norm  #: kind and epsilon of both


def tensors(p: PreNorm, D: int) -> Iterator[TensorSpec]:
    for place in PLACES:
        yield TensorSpec(name=place, axes="D", shape=(D,), role="norm")


def state(p: PreNorm, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: PreNorm, D: int, phase: Phase) -> Iterator[Site]:
    for place in PLACES:
        yield norm_site(p.norm, place, phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
