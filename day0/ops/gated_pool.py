"""Runs of tokens pooled into one entry each: Σ_s softmax_s(gate + bias) · value, channel by channel (DeepSeek-V4, §2.3)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def gated_pool(values_TSQ: "torch.Tensor", gates_TSQ: "torch.Tensor", bias_SQ: "torch.Tensor") -> "torch.Tensor":
    """→ [T, Q], one row an entry. T runs of S tokens; a gate of minus infinity leaves its token out."""
    weights_TSQ = (wide(gates_TSQ) + wide(bias_SQ)).softmax(1)
    return (weights_TSQ * wide(values_TSQ)).sum(1).to(values_TSQ.dtype)


def make(draw: Draw, T: int, S: int, Q: int) -> dict[str, Any]:
    gates = draw.normal(T, S, Q, scale=2)
    gates[0, : S // 2] = float("-inf")
    return {"values_TSQ": draw.normal(T, S, Q), "gates_TSQ": gates, "bias_SQ": draw.normal(S, Q, dtype=torch.float32)}


def cost(site: Site) -> Cost:
    return Cost(flops=8 * site.T * site.Q, bytes=4 * site.T * site.Q)


OP = Op(
    name="gated_pool", reference=gated_pool, inputs={"values": "TSQ", "gates": "TSQ", "bias": "SQ"}, outputs={"entries": "TQ"},
    layer="domain", cases=cases(make, T=(1, 7), S=(4, 16), Q=(60, 128)), budget=Budget(accumulations=32, special=8), cost=cost,
)  # fmt: skip
