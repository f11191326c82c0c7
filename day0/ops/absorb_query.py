"""Carry a query into latent space: q · W_key of each head, so that scores are taken against latents (arXiv 2405.04434, §2.1.2)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def absorb_query(q_THQ: "torch.Tensor", kv_b_OC: "torch.Tensor", v_dim: int) -> "torch.Tensor":
    """→ [T, H, C]. Rows of `kv_b_OC` are, head by head, Q rows of keys and `v_dim` rows of values."""
    _, H, Q = q_THQ.shape
    key_HQC = wide(kv_b_OC).view(H, Q + v_dim, -1)[:, :Q]
    return torch.einsum("thq,hqc->thc", wide(q_THQ), key_HQC).to(q_THQ.dtype)


def make(draw: Draw, T: int, H: int, Q: int, V: int, C: int) -> dict[str, Any]:
    return {"q_THQ": draw.normal(T, H, Q), "kv_b_OC": draw.normal(H * (Q + V), C, scale=Q**-0.5), "v_dim": V}


def cost(site: Site) -> Cost:
    return Cost(flops=2 * site.T * site.H * site.Q * site.C, bytes=2 * (site.H * site.Q * site.C + site.T * site.H * (site.Q + site.C)))


OP = Op(
    name="absorb_query", reference=absorb_query, inputs={"q": "THQ", "kv_b": "OC"}, outputs={"q_latent": "THC"}, layer="domain",
    cases=cases(make, T=(1, 9), H=(1, 5), Q=(16, 60), V=(20,), C=(28, 64)), budget=Budget(accumulations=64), cost=cost,
)  # fmt: skip
