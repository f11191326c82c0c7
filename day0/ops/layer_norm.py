"""Centre each row, scale it to unit variance, then apply a learned weight and bias (arXiv 1607.06450)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def layer_norm(x: "torch.Tensor", weight_D: "torch.Tensor", bias_D: "torch.Tensor", eps: float) -> "torch.Tensor":
    """Normalise the last axis of [..., D]; the variance is that of the population."""
    x_wide = wide(x)
    centred = x_wide - x_wide.mean(-1, keepdim=True)
    scaled = centred * (centred.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return (scaled * wide(weight_D) + wide(bias_D)).to(x.dtype)


def make(draw: Draw, T: int, D: int) -> dict[str, Any]:
    return {"x": draw.normal(T, D, scale=3) + 1, "weight_D": draw.normal(D), "bias_D": draw.normal(D), "eps": 1e-6}


def cost(site: Site) -> Cost:
    return Cost(flops=7 * site.T * site.D, bytes=4 * site.T * site.D)


OP = Op(
    name="layer_norm", reference=layer_norm, inputs={"x": "TD", "weight": "D", "bias": "D"}, outputs={"y": "TD"}, layer="base",
    cases=cases(make, T=(1, 63), D=(60, 128, 7168)), budget=Budget(accumulations=16, special=1), cost=cost,
)  # fmt: skip
