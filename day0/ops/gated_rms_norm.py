"""RMS norm of the last axis under a gate that is computed from the layer's input (Mamba-2, arXiv 2405.21060, §7.2; and its reverse)."""

from typing import Any, Literal

from day0.ops.rms_norm import rms_norm
from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def gated_rms_norm(
    x_THV: "torch.Tensor", gate_THV: "torch.Tensor", weight: "torch.Tensor", eps: float, gate: Literal["sigmoid", "silu"],
    gate_first: bool = False,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, H, V]: norm(x) · gate(g), or norm(x · gate(g)) when `gate_first`. `weight` is [V], or [H, V] with one row a head."""
    factor = functional.silu(wide(gate_THV)) if gate == "silu" else wide(gate_THV).sigmoid()
    if gate_first:
        return rms_norm(wide(x_THV) * factor, weight, eps).to(x_THV.dtype)
    return (rms_norm(wide(x_THV), weight, eps) * factor).to(x_THV.dtype)


def make(draw: Draw, T: int, H: int, V: int, gate: str, gate_first: bool) -> dict[str, Any]:
    weight = draw.normal(H, V) if gate_first else draw.normal(V)
    return {
        "x_THV": draw.normal(T, H, V, scale=3), "gate_THV": draw.normal(T, H, V), "weight": weight,
        "eps": 1e-5, "gate": gate, "gate_first": gate_first,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    return Cost(flops=8 * site.T * site.H * site.V, bytes=6 * site.T * site.H * site.V)


OP = Op(
    name="gated_rms_norm", reference=gated_rms_norm, inputs={"x": "THV", "gate": "THV", "weight": "V"}, outputs={"y": "THV"}, layer="fused",
    cases=cases(make, T=(1, 63), H=(1, 6), V=(60, 128), gate=("sigmoid", "silu"), gate_first=(False, True)),
    budget=Budget(rounds=2, accumulations=8, special=8), cost=cost,
)  # fmt: skip
