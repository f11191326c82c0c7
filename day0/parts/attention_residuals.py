"""Attention Residuals (Kimi K3): sublayers read a softmax mix of the sum since the last block began and the starts of earlier blocks."""

from collections.abc import Iterator
from typing import Literal

from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class AttentionResiduals(PartSpec):
    """The stream of a token is the starts of all blocks so far, then the sum. Before the first block begins it is the sum alone."""

    norm: Norm  #: before each sublayer; its epsilon is also that of the mixes' norms
    place: Literal["first", "start", "inside", "end"]  #: of the layer in its block; "first" starts the first one, "end" is after all layers

    @property
    def mixes(self) -> tuple[str, ...]:
        """Where the stream is mixed; before the first block there is nothing to mix."""
        return {"first": ("ffn",), "end": ("end",)}.get(self.place, ("mixer", "ffn"))


def tensors(p: AttentionResiduals, D: int) -> Iterator[TensorSpec]:
    for name in p.mixes:
        yield TensorSpec(name=f"{name}_mix_norm", axes="D", shape=(D,), role="norm")
        yield TensorSpec(name=f"{name}_mix_query", axes="D", shape=(D,), role="linear")
    for name in ("mixer_norm", "ffn_norm") if p.place != "end" else ():
        yield TensorSpec(name=name, axes="D", shape=(D,), role="norm")


def state(p: AttentionResiduals, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(p: AttentionResiduals, D: int, phase: Phase) -> Iterator[Site]:
    for name in p.mixes:
        yield Site(op="attention_residual", label=f"{name}_mix", phase=phase, sizes={"D": D}, weights=(f"{name}_mix_norm", f"{name}_mix_query"))
    for name in ("mixer_norm", "ffn_norm") if p.place != "end" else ():
        yield norm_site(p.norm, name, phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites)
