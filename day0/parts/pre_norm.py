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
    scaled: bool = False  #: what a sublayer adds is multiplied by a learned vector (LayerScale, arXiv 2103.17239)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the norms' weights."""
        return ("norm",) if self.single else ("mixer_norm", "ffn_norm")


def norm_tensors(norm: Norm, name: str, D: int) -> Iterator[TensorSpec]:
    """The weight of a norm and, where it has one, its bias."""
    yield TensorSpec(name=name, axes="D", shape=(D,), role="norm")
    if norm.kind == "layer":
        yield TensorSpec(name=f"{name}_bias", axes="D", shape=(D,), role="bias")


def tensors(p: PreNorm, D: int) -> Iterator[TensorSpec]:
    for name in p.names:
        yield from norm_tensors(p.norm, name, D)
    for place in ("mixer", "ffn") if p.scaled else ():
        yield TensorSpec(name=f"{place}_scale", axes="D", shape=(D,), role="bias")


def state(p: PreNorm, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: PreNorm, D: int, phase: Phase) -> Iterator[Site]:
    for name in p.names:
        yield norm_site(p.norm, name, phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
