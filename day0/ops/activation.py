"""activation(x), elementwise, for feed-forward networks without a gate."""

from typing import Any

from day0.ops.gated_activation import activate, cost
from day0.spec.activation import Activation
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Op


def ungated(x_TF: "torch.Tensor", activation: Activation) -> "torch.Tensor":
    """→ [T, F]."""
    return activate(wide(x_TF), activation).to(x_TF.dtype)


def make(draw: Draw, T: int, F: int, kind: str) -> dict[str, Any]:
    return {"x_TF": draw.normal(T, F, scale=4), "activation": Activation(kind=kind, gated=False)}  # type: ignore[arg-type]


OP = Op(
    name="activation", reference=ungated, inputs={"x": "TF"}, outputs={"y": "TF"}, layer="base",
    cases=cases(make, T=(1, 63), F=(60, 1000), kind=("silu", "gelu", "gelu_tanh", "relu2")), budget=Budget(special=4), cost=cost,
)  # fmt: skip
