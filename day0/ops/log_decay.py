"""How much of a linear attention's state each token keeps, as a logarithm: -exp(rate) · softplus(x + bias) (Mamba, arXiv 2312.00752,
§3.6; Kimi Linear, arXiv 2510.26692), or floor · sigmoid(exp(rate) · (x + bias)), which stays above the floor."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def log_decay(x_THQ: "torch.Tensor", rate_log_H: "torch.Tensor", bias_HQ: "torch.Tensor", floor: float | None = None) -> "torch.Tensor":
    """→ [T, H, Q] in float32 (float64 when given float64), at most 0. Q is 1 where a head has one decay for all channels."""
    x, rate = wide(x_THQ) + bias_HQ, wide(rate_log_H).exp()[:, None]
    return -rate * functional.softplus(x) if floor is None else floor * torch.sigmoid(rate * x)


def make(draw: Draw, T: int, H: int, Q: int, floor: float | None) -> dict[str, Any]:
    return {"x_THQ": draw.normal(T, H, Q), "rate_log_H": draw.normal(H), "bias_HQ": draw.normal(H, Q), "floor": floor}


def cost(site: Site) -> Cost:
    return Cost(flops=5 * site.T * site.H * site.Q, bytes=6 * site.T * site.H * site.Q)


OP = Op(
    name="log_decay", reference=log_decay, inputs={"x": "THQ", "rate_log": "H", "bias": "HQ"}, outputs={"decay": "THQ"}, layer="domain",
    cases=cases(make, T=(1, 63), H=(1, 5), Q=(1, 60), floor=(None, -5.0)), budget=Budget(special=8), cost=cost,
)  # fmt: skip
