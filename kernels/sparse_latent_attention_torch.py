"""Sparse latent attention by SDPA: tokens are sequences of their own, which hold the entries that were gathered for them; heads are their rows."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site

ELEMENTS = 1 << 23  # of gathered entries that are held at once


def launch(q_THC: Any, q_THR: Any, pages: Any, segment: Any, indices_TK: Any, scale: float) -> Any:
    T, _, C = q_THC.shape
    entries, K = pages.flatten(0, 1), indices_TK.shape[1]
    q_TH = torch.cat((q_THC, q_THR), dim=-1)
    o_THC = torch.empty_like(q_THC)
    step = max(1, ELEMENTS // (K * entries.shape[1]))
    for start in range(0, T, step):
        rows = slice(start, min(start + step, T))
        place_TK = segment.places(indices_TK[rows].clamp(min=0), pages.shape[1], rows)
        o_THC[rows] = _gathered(q_TH[rows], entries, place_TK, indices_TK[rows] >= 0, scale, C)
    return o_THC


def _gathered(q_TH: Any, entries: Any, place_TK: Any, seen_TK: Any, scale: float, C: int) -> Any:
    """[T, H, C]"""
    key = entries.index_select(0, place_TK.flatten()).view(len(q_TH), 1, place_TK.shape[1], -1)
    value = key if key.is_cpu else key[..., :C]  # the fused kernel for processors takes values as wide as keys alone
    mask = seen_TK[:, None, None]
    return functional.scaled_dot_product_attention(q_TH[:, None], key, value, attn_mask=mask, scale=scale)[:, 0, :, :C]


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="sparse_latent_attention", provider="torch", fn=launch, refuses=refuses, status="composite")
