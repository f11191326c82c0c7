"""Residual stream with a norm before and one after each sublayer: x + norm(mixer(norm(x))), then the same with the feed-forward network."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec

PLACES = ("mixer_norm", "mixer_post_norm", "ffn_norm", "ffn_post_norm")


@record
class SandwichNorm(PartSpec):
    """Two norms for the mixer and two for the feed-forward network."""

    norm: Norm  #: kind and epsilon of all four


def tensors(p: SandwichNorm, D: int) -> Iterator[TensorSpec]:
    for place in PLACES:
        yield TensorSpec(name=place, axes="D", shape=(D,), role="norm")


def state(p: SandwichNorm, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: SandwichNorm, D: int, phase: Phase) -> Iterator[Site]:
    for place in PLACES:
        yield norm_site(p.norm, place, phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
