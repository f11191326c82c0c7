"""Scale each row to unit root mean square, then by a learned weight (arXiv 1910.07467)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def rms_norm(x: "torch.Tensor", weight_D: "torch.Tensor | None", eps: float, plus_one: bool = False) -> "torch.Tensor":
    """Normalise the last axis of [..., D]; `plus_one`: the weight is stored as its difference from one. None: there is no weight."""
    x_wide = wide(x)
    normed = x_wide * (x_wide.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    if weight_D is not None:
        normed = normed * (wide(weight_D) + 1 if plus_one else wide(weight_D))
    return normed.to(x.dtype)


def make(draw: Draw, T: int, D: int, weight: str) -> dict[str, Any]:
    drawn = None if weight == "none" else draw.normal(D)
    return {"x": draw.normal(T, D, scale=3), "weight_D": drawn, "eps": 1e-6, "plus_one": weight == "plus one"}


def cost(site: Site) -> Cost:
    return Cost(flops=4 * site.T * site.D, bytes=4 * site.T * site.D)


OP = Op(
    name="rms_norm", reference=rms_norm, inputs={"x": "TD", "weight": "D"}, outputs={"y": "TD"}, layer="base",
    budget=Budget(accumulations=8, special=1), cost=cost,
    cases=cases(make, T=(1, 63), D=(60, 128, 7168), weight=("plain", "plus one", "none")),
)  # fmt: skip
