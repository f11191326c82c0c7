"""Mixture of experts: a router picks a few gated networks for each token; shared ones see every token (arXiv 2401.06066)."""

from collections.abc import Iterator
from typing import Literal

from day0.parts.dense_ffn import gated_sites, linears, projections
from day0.spec.model import PartSpec, TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class Router:
    """How experts are chosen and weighed; everything in float32."""

    score: Literal["softmax", "sigmoid"]  #: from logits to scores, over all experts
    bias: bool = False  #: a correction added to the scores for the choice only, never for the weight
    groups: int = 1  #: groups of neighbouring experts
    top_groups: int = 1  #: groups that may be chosen from, by the sum of their two best scores
    renormalise: bool = False  #: weights are divided by their sum
    epsilon: float = 0.0  #: added to that sum
    scale: float = 1.0  #: factor on the weights


@record
class MoeFfn(PartSpec):
    """Routed and shared experts of one layer."""

    experts: int  #: routed experts E
    top_k: int  #: experts chosen for a token
    width: int  #: F of a routed expert
    activation: str  #: of the gate: "silu"
    router: Router  #: the rule
    shared_width: int = 0  #: width of the shared experts together; 0 where there is none


def tensors(f: MoeFfn, D: int) -> Iterator[TensorSpec]:
    yield TensorSpec(name="router", axes="ED", shape=(f.experts, D), role="router", precision="float32")
    if f.router.bias:
        yield TensorSpec(name="router_bias", axes="E", shape=(f.experts,), role="router", precision="float32")
    for name, shape in projections(f.width, D).items():
        axes = "EDF" if name == "down" else "EFD"
        used = (f.top_k, f.experts)
        yield TensorSpec(name=f"experts.{name}", axes=axes, shape=(f.experts, *shape), role="expert", split="expert", used=used)
    if f.shared_width:
        yield from linears(f.shared_width, D, "shared.")


def state(f: MoeFfn, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(f: MoeFfn, D: int, phase: Phase) -> Iterator[Site]:
    sizes = {"E": f.experts, "K": f.top_k, "D": D, "F": f.width, "G": f.router.groups}
    options = {"score": f.router.score, "activation": f.activation}
    size = {"O": f.experts, "I": D}
    yield Site(op="linear", label="router", phase=phase, sizes=size, options={"precision": "float32"}, weights=("router",))
    yield Site(op="route", label="route", phase=phase, sizes=sizes, options=options)
    banks = tuple(f"experts.{name}" for name in projections(f.width, D))
    yield Site(op="experts", label="experts", phase=phase, sizes=sizes, options=options, weights=banks)
    if f.shared_width:
        yield from gated_sites(f.shared_width, D, f.activation, phase, "shared.")


PART = Part(tensors=tensors, state=state, sites=sites)
