"""Residual that is taken after the norm, both terms scaled: n = norm(x), then a n + b sublayer(n) (MiniMax-01, arXiv 2501.08313)."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec

PLACES = ("mixer_norm", "ffn_norm")


@record
class NormResidual(PartSpec):
    """Factors of the normed stream and of what the sublayer adds, for each sublayer."""

    norm: Norm  #: kind and epsilon of both norms
    mixer: tuple[float, float]  #: factor of the normed stream, factor of the mixer's result
    ffn: tuple[float, float]  #: the same for the feed-forward network


def tensors(p: NormResidual, D: int) -> Iterator[TensorSpec]:
    for name in PLACES:
        yield TensorSpec(name=name, axes="D", shape=(D,), role="norm")


def state(p: NormResidual, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: NormResidual, D: int, phase: Phase) -> Iterator[Site]:
    for name in PLACES:
        yield norm_site(p.norm, name, phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
