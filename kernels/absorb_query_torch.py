"""Query into latent space as one batched matrix product over heads, in the compute type."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(q_THQ: Any, kv_b_OC: Any, v_dim: int) -> Any:
    _, H, Q = q_THQ.shape
    key_HQC = kv_b_OC.view(H, Q + v_dim, -1)[:, :Q]
    return torch.bmm(q_THQ.transpose(0, 1), key_HQC).transpose(0, 1)


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="absorb_query", provider="torch", fn=launch, refuses=refuses, status="native")
