"""Mixture of experts: a router picks a few networks for each token; shared ones see every token (arXiv 2401.06066)."""

from collections.abc import Iterator
from typing import Literal

from day0.parts.dense_ffn import linears, network_sites, projections
from day0.spec.activation import Activation
from day0.spec.model import Norm, PartSpec, TensorSpec, norm_site
from day0.spec.ops import Phase, Site
from day0.spec.part import Part
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class Router:
    """How experts are chosen and weighed; everything in float32."""

    score: Literal["softmax", "sigmoid", "sqrt_softplus"]  #: from logits to scores
    choice_first: bool = False  #: the best logits are chosen, and scored among themselves; else all are scored, then chosen
    linear_bias: bool = False  #: whether the router's matrix has a bias
    bias: bool = False  #: a correction added for the choice only, never for the weight
    table: bool = False  #: a table by token id makes the choice; scores only weigh it
    groups: int = 1  #: groups of neighbouring experts
    top_groups: int = 1  #: groups that may be chosen from, by the sum of their two best scores
    renormalise: bool = False  #: weights are divided by their sum
    epsilon: float = 0.0  #: added to that sum
    scale: float = 1.0  #: factor on the weights


@record
class MoeFfn(PartSpec):
    """Routed and shared experts of one layer."""

    experts: int  #: routed experts E that have weights
    top_k: int  #: experts chosen for a token
    width: int  #: F of a routed expert
    activation: Activation  #: of the experts
    router: Router  #: the rule
    vocab: int = 0  #: rows of the router's table; 0 without one
    identities: int = 0  #: experts beyond E that return their input
    biases: bool = False  #: whether routed experts have biases
    scale_input: bool = False  #: weights multiply the experts' input
    latent: int | None = None  #: width that routed experts work at, between a projection down and one up; None: the model's
    latent_norm: Norm | None = None  #: of the experts' sum before the projection up
    shared_width: int = 0  #: width of the shared experts together; 0 where there is none
    shared_gate: bool = False  #: the shared experts are weighed by the sigmoid of a linear map
    out_norm: Norm | None = None  #: of the result, shared experts included
    apart: bool = False  #: the result is [T, 2, D], shared and routed experts apart, for a residual that adds them at different places
    shared_activation: Activation | None = None  #: of the shared experts; None: that of the routed ones

    @property
    def matrices(self) -> tuple[str, ...]:
        """Names of an expert's matrices."""
        return ("gate", "up", "down") if self.activation.gated else ("up", "down")


def tensors(f: MoeFfn, D: int) -> Iterator[TensorSpec]:
    routed = f.experts + f.identities
    yield TensorSpec(name="router", axes="ED", shape=(routed, D), role="router", precision="float32")
    if f.router.linear_bias:
        yield TensorSpec(name="router_linear_bias", axes="E", shape=(routed,), role="bias", precision="float32")
    if f.router.bias:
        yield TensorSpec(name="router_bias", axes="E", shape=(routed,), role="router", precision="float32")
    if f.router.table:
        yield TensorSpec(name="router_table", axes="WK", shape=(f.vocab, f.top_k), role="table", precision="integer")
    used = (f.top_k, routed)
    for name in f.matrices:
        shape = (f.experts, *projections(f.width, f.latent or D)[name])
        axes = "EDF" if name == "down" else "EFD"
        yield TensorSpec(name=f"experts.{name}", axes=axes, shape=shape, role="expert", split="expert", used=used)
        if f.biases:
            yield TensorSpec(name=f"experts.{name}_bias", axes=axes[:2], shape=shape[:2], role="bias", split="expert", used=used)
    if f.latent:
        yield TensorSpec(name="latent_down", axes="OI", shape=(f.latent, D), role="linear")
        yield TensorSpec(name="latent_up", axes="OI", shape=(D, f.latent), role="linear")
    if f.latent and f.latent_norm:
        yield TensorSpec(name="latent_norm", axes="D", shape=(f.latent,), role="norm")
    if f.shared_width:
        yield from linears(f.shared_width, D, "shared.", gated=f.activation.gated)
    if f.shared_gate:
        yield TensorSpec(name="shared_gate", axes="OI", shape=(1, D), role="linear")
    if f.out_norm:
        yield TensorSpec(name="out_norm", axes="D", shape=(D,), role="norm")


def state(f: MoeFfn, dtype: str) -> Iterator[StateSpec]:
    yield from ()


def sites(f: MoeFfn, D: int, phase: Phase) -> Iterator[Site]:
    width = f.latent or D
    size = {"O": f.experts + f.identities, "I": D}
    yield Site(op="linear", label="router", phase=phase, sizes=size, options={"precision": "float32"}, weights=("router",))
    sizes = {"E": f.experts + f.identities, "K": f.top_k, "D": width, "F": f.width, "G": f.router.groups}
    yield Site(op="route", label="route", phase=phase, sizes=sizes, options={"rule": f.router, "precision": "float32"})
    if f.latent:
        yield Site(op="linear", label="latent_down", phase=phase, sizes={"O": width, "I": D}, weights=("latent_down",))
    options = {"activation": f.activation, "biases": f.biases, "scale_input": f.scale_input}
    banks = tuple(f"experts.{name}" for name in f.matrices)
    yield Site(op="experts", label="experts", phase=phase, sizes=sizes | {"E": f.experts}, options=options, weights=banks)
    if f.latent and f.latent_norm:
        yield norm_site(f.latent_norm, "latent_norm", phase, {"D": width})
    if f.latent:
        yield Site(op="linear", label="latent_up", phase=phase, sizes={"O": D, "I": width}, weights=("latent_up",))
    if f.shared_width:
        yield from network_sites(f.shared_width, D, f.shared_activation or f.activation, phase, "shared.")
    if f.shared_gate:
        yield Site(op="linear", label="shared_gate", phase=phase, sizes={"O": 1, "I": D}, weights=("shared_gate",))
    if f.out_norm:
        yield norm_site(f.out_norm, "out_norm", phase, {"D": D})


PART = Part(tensors=tensors, state=state, sites=sites, cut=("shared_width",))
