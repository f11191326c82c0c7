"""Residual stream with a norm before each sublayer, and one after some: x + norm(ffn(norm(x)))."""

from collections.abc import Iterator
from typing import Literal

from day0.parts import pre_norm
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class SandwichNorm(PartSpec):
    """Norms around sublayers."""

    norm: Norm  #: kind and epsilon of all
    after: tuple[Literal["mixer", "ffn"], ...] = ("mixer", "ffn")  #: sublayers whose result is normed before it is added


def tensors(p: SandwichNorm, D: int) -> Iterator[TensorSpec]:
    yield from pre_norm.tensors(pre_norm.PreNorm(norm=p.norm), D)
    for place in p.after:
        yield TensorSpec(name=f"{place}_post_norm", axes="D", shape=(D,), role="norm")


def state(p: SandwichNorm, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: SandwichNorm, D: int, phase: Phase) -> Iterator[Site]:
    yield from pre_norm.sites(pre_norm.PreNorm(norm=p.norm), D, phase)
    for place in p.after:
        yield norm_site(p.norm, f"{place}_post_norm", phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
