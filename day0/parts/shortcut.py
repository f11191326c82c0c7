"""Pre-norm stream beside which the routed experts' sum of one layer waits until the end of the next (ScMoE, arXiv 2404.05019)."""

from collections.abc import Iterator

from day0.parts import pre_norm
from day0.spec.model import Norm, PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class Shortcut(PartSpec):
    """The stream is [T, 2, D]: what goes on, and what waits."""

    norm: Norm  #: kind and epsilon of the norms before the sublayers
    lands: bool  #: whether what waits is added at the end of this layer


def tensors(p: Shortcut, D: int) -> Iterator[TensorSpec]:
    yield from pre_norm.tensors(pre_norm.PreNorm(norm=p.norm), D)


def state(p: Shortcut, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: Shortcut, D: int, phase: Phase) -> Iterator[Site]:
    yield from pre_norm.sites(pre_norm.PreNorm(norm=p.norm), D, phase)


PART = Part(tensors=tensors, state=state, sites=sites)
