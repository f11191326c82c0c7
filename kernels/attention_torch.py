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
    q, k, v = (x.transpose(0, 1)[None] for x in (q_THQ, k_SNQ, as_wide(v_SNV, k_SNQ)))
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=T == S, scale=scale, enable_gqa=H != N)
    return out[0].transpose(0, 1)[..., : v_SNV.shape[-1]]


def as_wide(v: Any, k: Any) -> Any:
    """Values with zeros behind them up to the width of keys: torch's fused kernel for processors takes no others."""
    return functional.pad(v, (0, k.shape[-1] - v.shape[-1])) if v.is_cpu and v.shape[-1] < k.shape[-1] else v


def refuses(site: Site, machine: Any) -> str | None:
    return "knows neither sinks nor given masks" if site.options.get("sinks_H") or site.options.get("seen_TS") else None


IMPL = Impl(op="attention", provider="torch", fn=launch, refuses=refuses, status="native")
