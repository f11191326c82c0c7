"""Residual stream with a norm before each sublayer: x + mixer(norm(x)), then x + ffn(norm(x)); or the one sublayer there is."""

from collections.abc import Iterator

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class PreNorm(PartSpec):
    """One norm for the mixer and one for the feed-forward network."""

    norm: Norm  #: kind and epsilon of both
    single: bool = False  #: layers have one sublayer and one norm

    @property
    def names(self) -> tuple[str, ...]:
        """Of the norms' weights."""
        return ("norm",) if self.single else ("mixer_norm", "ffn_norm")


def tensors(p: PreNorm, D: int) -> Iterator[TensorSpec]:
    for name in p.names:
        yield TensorSpec(name=name, axes="D", shape=(D,), role="norm")


def state(p: PreNorm, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: PreNorm, D: int, phase: Phase) -> Iterator[Site]:
    for name in p.names:
        yield norm_site(p.norm, name, phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
