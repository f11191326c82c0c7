"""Convolutions of stride two, each of which halves rows and columns of patches and doubles their width, then a linear map (Step-3.7)."""

from collections.abc import Iterator

from day0.spec.model import PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec

KERNEL, STRIDE, PADDING = 3, 2, 1


@record
class StridedProjector(PartSpec):
    """Convolutions of 3 × 3 patches, with a border of zeros, and a projection."""

    convolutions: int  #: how many
    out: int  #: width of the embeddings
    bias: bool  #: whether the projection has one


def tensors(m: StridedProjector, D: int) -> Iterator[TensorSpec]:
    for number in range(m.convolutions):
        width = D << number
        yield TensorSpec(name=f"halve_{number}", axes="OIJJ", shape=(2 * width, width, KERNEL, KERNEL), role="conv")
        yield TensorSpec(name=f"halve_{number}_bias", axes="O", shape=(2 * width,), role="bias")
    yield TensorSpec(name="proj", axes="OI", shape=(m.out, D << m.convolutions), role="linear")
    if m.bias:
        yield TensorSpec(name="proj_bias", axes="O", shape=(m.out,), role="bias")


def state(m: StridedProjector, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(m: StridedProjector, D: int, phase: Phase) -> Iterator[Site]:
    for number in range(m.convolutions):
        sizes = {"O": 2 * (D << number), "I": (D << number) * KERNEL**2}
        yield Site(op="linear", label=f"halve_{number}", phase=phase, sizes=sizes, weights=(f"halve_{number}",))
    yield Site(op="linear", label="proj", phase=phase, sizes={"O": m.out, "I": D << m.convolutions}, weights=("proj",))


PART = Part(tensors=tensors, state=state, sites=sites)
