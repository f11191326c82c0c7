"""Carry attended latents back into the heads' value space: o · W_valueᵀ of each head (arXiv 2405.04434, §2.1.2)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def expand_value(o_THC: "torch.Tensor", kv_b_OC: "torch.Tensor", v_dim: int) -> "torch.Tensor":
    """→ [T, H, V]. Rows of `kv_b_OC` are, head by head, rows of keys and then `v_dim` rows of values."""
    _, H, C = o_THC.shape
    value_HVC = wide(kv_b_OC).view(H, -1, C)[:, -v_dim:]
    return torch.einsum("thc,hvc->thv", wide(o_THC), value_HVC).to(o_THC.dtype)


def make(draw: Draw, T: int, H: int, Q: int, V: int, C: int) -> dict[str, Any]:
    return {"o_THC": draw.normal(T, H, C), "kv_b_OC": draw.normal(H * (Q + V), C, scale=C**-0.5), "v_dim": V}


def cost(site: Site) -> Cost:
    return Cost(flops=2 * site.T * site.H * site.V * site.C, bytes=2 * (site.H * site.V * site.C + site.T * site.H * (site.V + site.C)))


OP = Op(
    name="expand_value", reference=expand_value, inputs={"o_latent": "THC", "kv_b": "OC"}, outputs={"o": "THV"}, layer="domain",
    cases=cases(make, T=(1, 9), H=(1, 5), Q=(16,), V=(20, 60), C=(28, 64)), budget=Budget(accumulations=64), cost=cost,
)  # fmt: skip
