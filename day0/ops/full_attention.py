"""Softmax attention in which every token sees every other (arXiv 1706.03762, §3.2)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def full_attention(q_THQ: "torch.Tensor", k_THQ: "torch.Tensor", v_THQ: "torch.Tensor", scale: float) -> "torch.Tensor":
    """→ [T, H, Q]."""
    weights_HTS = (torch.einsum("thq,shq->hts", wide(q_THQ), wide(k_THQ)) * scale).softmax(-1)
    return torch.einsum("hts,shq->thq", weights_HTS, wide(v_THQ)).to(q_THQ.dtype)


def make(draw: Draw, T: int, H: int, Q: int) -> dict[str, Any]:
    return {"q_THQ": draw.normal(T, H, Q), "k_THQ": draw.normal(T, H, Q), "v_THQ": draw.normal(T, H, Q), "scale": Q**-0.5}


def cost(site: Site) -> Cost:
    return Cost(flops=4 * site.T**2 * site.H * site.Q, bytes=8 * site.T * site.H * site.Q)


OP = Op(
    name="full_attention", reference=full_attention, inputs={"q": "THQ", "k": "THQ", "v": "THQ"}, outputs={"o": "THQ"}, layer="base",
    cases=cases(make, T=(1, 5, 63, 400), H=(1, 6), Q=(24, 72)), budget=Budget(rounds=2, accumulations=64, special=8), cost=cost,
)  # fmt: skip
