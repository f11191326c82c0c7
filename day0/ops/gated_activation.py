"""activation(gate) · up, elementwise (GLU variants, arXiv 2002.05202), with the clamps and offsets of releases."""

from typing import Any

from day0.spec.activation import Activation
from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def gated_activation(gate_TF: "torch.Tensor", up_TF: "torch.Tensor", activation: Activation) -> "torch.Tensor":
    """→ [T, F]."""
    gate, up = wide(gate_TF), wide(up_TF)
    if activation.kind == "situ":
        up = activation.linear_beta * torch.tanh(up / activation.linear_beta)
    if activation.limit is None:
        activated = activate(gate, activation)
    else:
        up = up.clamp(-activation.limit, activation.limit)
        activated = activate(gate if activation.limit_after else gate.clamp(max=activation.limit), activation)
        activated = activated.clamp(max=activation.limit) if activation.limit_after else activated
    return (activated * (up + activation.offset)).to(gate_TF.dtype)


def activate(x: "torch.Tensor", activation: Activation) -> "torch.Tensor":
    """The function of one argument."""
    if activation.kind == "silu":
        return x * torch.sigmoid(activation.alpha * x)
    if activation.kind == "relu2":
        return functional.relu(x).square()
    if activation.kind == "situ":
        return activation.beta * torch.tanh(x / activation.beta) * torch.sigmoid(x)
    return functional.gelu(x, approximate="tanh" if activation.kind == "gelu_tanh" else "none")


ACTIVATIONS = (
    Activation(kind="silu"), Activation(kind="gelu"), Activation(kind="gelu_tanh"), Activation(kind="situ"),
    Activation(kind="silu", limit=7.0, alpha=1.702, offset=1.0), Activation(kind="silu", limit=2.0),
    Activation(kind="silu", limit=2.0, limit_after=True),
)  # fmt: skip


def make(draw: Draw, T: int, F: int, case: int) -> dict[str, Any]:
    return {"gate_TF": draw.normal(T, F, scale=4), "up_TF": draw.normal(T, F, scale=4), "activation": ACTIVATIONS[case]}


def cost(site: Site) -> Cost:
    return Cost(flops=5 * site.T * site.F, bytes=6 * site.T * site.F)


OP = Op(
    name="gated_activation", reference=gated_activation, inputs={"gate": "TF", "up": "TF"}, outputs={"y": "TF"}, layer="base",
    cases=cases(make, T=(1, 63), F=(60, 1000), case=tuple(range(len(ACTIVATIONS)))), budget=Budget(rounds=2, special=4), cost=cost,
)  # fmt: skip
