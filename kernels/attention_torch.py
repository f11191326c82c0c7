"""Causal attention of one sequence by torch's scaled dot product attention."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site


def launch(q_THQ: Any, k_SNQ: Any, v_SNV: Any, scale: float, sinks_H: Any = None, seen_TS: Any = None) -> Any:
    T, H, _ = q_THQ.shape
    S, N, _ = k_SNQ.shape
    mask = None
    if 1 < T < S:
        mask = torch.ones(T, S, dtype=torch.bool, device=q_THQ.device).tril(S - T)
    q, k, v = (x.transpose(0, 1)[None] for x in (q_THQ, k_SNQ, v_SNV))
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=T == S, scale=scale, enable_gqa=H != N)
    return out[0].transpose(0, 1)


def refuses(site: Site, machine: Any) -> str | None:
    return "knows neither sinks nor given masks" if site.options.get("sinks_H") or site.options.get("seen_TS") else None


IMPL = Impl(op="attention", provider="torch", fn=launch, refuses=refuses, status="native")
