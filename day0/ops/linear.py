"""Linear map x · weightᵀ + bias."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def linear(x_TI: "torch.Tensor", weight_OI: "torch.Tensor", bias_O: "torch.Tensor | None" = None) -> "torch.Tensor":
    """→ [T, O] in the type of x."""
    y_TO = wide(x_TI) @ wide(weight_OI).to(wide(x_TI).dtype).T
    return (y_TO if bias_O is None else y_TO + bias_O).to(x_TI.dtype)


def make(draw: Draw, T: int, O: int, I: int, bias: bool) -> dict[str, Any]:  # noqa: E741
    weight = draw.normal(O, I, scale=I**-0.5)
    return {"x_TI": draw.normal(T, I), "weight_OI": weight, "bias_O": draw.normal(O) if bias else None}


def cost(site: Site) -> Cost:
    return Cost(flops=2 * site.T * site.O * site.I, bytes=2 * (site.O * site.I + site.T * (site.O + site.I)))


OP = Op(
    name="linear", reference=linear, inputs={"x": "TI", "weight": "OI", "bias": "O"}, outputs={"y": "TO"}, layer="base",
    cases=cases(make, T=(1, 63), O=(1, 60, 1000), I=(60, 1024), bias=(False, True)), budget=Budget(accumulations=1024), cost=cost,
)  # fmt: skip
