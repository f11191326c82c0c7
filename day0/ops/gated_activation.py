"""activation(gate) · up, elementwise (GLU variants, arXiv 2002.05202)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site

ACTIVATIONS = {
    "silu": lambda x: x * torch.sigmoid(x),
    "gelu": lambda x: functional.gelu(x),
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}


def gated_activation(gate_TF: "torch.Tensor", up_TF: "torch.Tensor", activation: str) -> "torch.Tensor":
    """→ [T, F]."""
    return (ACTIVATIONS[activation](wide(gate_TF)) * wide(up_TF)).to(gate_TF.dtype)


def make(draw: Draw, T: int, F: int, activation: str) -> dict[str, Any]:
    return {"gate_TF": draw.normal(T, F, scale=4), "up_TF": draw.normal(T, F), "activation": activation}


def cost(site: Site) -> Cost:
    return Cost(flops=5 * site.T * site.F, bytes=6 * site.T * site.F)


OP = Op(
    name="gated_activation", reference=gated_activation, inputs={"gate": "TF", "up": "TF"}, outputs={"y": "TF"}, layer="base",
    cases=cases(make, T=(1, 63), F=(60, 1000), activation=tuple(ACTIVATIONS)), budget=Budget(rounds=2, special=4), cost=cost,
)  # fmt: skip
