"""Attention over the residual stream's own past: a softmax mix of the starts of earlier blocks and the sum since then (Attention Residuals,
Kimi K3)."""

from typing import Any

from day0.ops.rms_norm import rms_norm
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def attention_residual(stream_TSD: "torch.Tensor", norm_D: "torch.Tensor", query_D: "torch.Tensor", eps: float) -> "torch.Tensor":
    """→ [T, D]: Σ_s softmax_s(norm(x_s) · query) x_s over the S vectors of each token."""
    x = wide(stream_TSD)
    weights_TS = (rms_norm(x, norm_D, eps) * wide(query_D).view(-1)).sum(-1).softmax(-1)
    return torch.einsum("ts,tsd->td", weights_TS, x).to(stream_TSD.dtype)


def make(draw: Draw, T: int, S: int, D: int) -> dict[str, Any]:
    return {"stream_TSD": draw.normal(T, S, D, scale=3), "norm_D": draw.normal(D), "query_D": draw.normal(D, scale=D**-0.5), "eps": 1e-5}


def cost(site: Site) -> Cost:
    return Cost(flops=9 * site.T * site.D, bytes=4 * site.T * site.D)


OP = Op(
    name="attention_residual", reference=attention_residual, inputs={"stream": "TSD", "norm": "D", "query": "D"}, outputs={"x": "TD"},
    layer="domain", cases=cases(make, T=(1, 63), S=(2, 9), D=(60, 128)), budget=Budget(rounds=2, accumulations=128, special=8), cost=cost,
)  # fmt: skip
