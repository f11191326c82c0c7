"""Latents into value space as one batched matrix product over heads, in the compute type."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(o_THC: Any, kv_b_OC: Any, v_dim: int) -> Any:
    _, H, C = o_THC.shape
    value_HVC = kv_b_OC.view(H, -1, C)[:, -v_dim:]
    return torch.bmm(o_THC.transpose(0, 1), value_HVC.transpose(1, 2)).transpose(0, 1)


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="expand_value", provider="torch", fn=launch, refuses=refuses, status="native")
