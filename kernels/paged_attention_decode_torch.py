"""Decode over pages: the query heads that share a key head are the rows of one SDPA call, so that keys are read once and never repeated."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    B, H, Q = q_THQ.shape
    N, V = k_pages.shape[2], v_pages.shape[3]
    q = q_THQ.view(B, N, H // N, Q)
    if None not in segment.runs:
        out = torch.cat([_one(q[b : b + 1], k_pages, v_pages, segment, b, scale) for b in range(B)]) if B > 1 else None
        return (_one(q, k_pages, v_pages, segment, 0, scale) if out is None else out).reshape(B, H, V)
    table_BP = segment.table_BP
    k, v = (pages[table_BP].flatten(1, 2).transpose(1, 2) for pages in (k_pages, v_pages))
    mask = _mask(segment, k.shape[2], q_THQ.device)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).reshape(B, H, V)


def _one(q: Any, k_pages: Any, v_pages: Any, segment: Any, b: int, scale: float) -> Any:
    k, v = (segment.entries(pages, b, PAGED).transpose(0, 1)[None] for pages in (k_pages, v_pages))
    return functional.scaled_dot_product_attention(q, k, v, scale=scale)


def _mask(segment: Any, width: int, device: Any) -> Any:
    """[B, 1, 1, S]: the entries of each sequence that exist; made once a step."""
    if "existing" not in segment.shared:
        lengths_B = torch.tensor(segment.lengths, device=device)
        segment.shared["existing"] = (torch.arange(width, device=device) < lengths_B[:, None])[:, None, None]
    return segment.shared["existing"]


def refuses(site: Site, machine: Any) -> str | None:
    if site.options.get("window") or site.options.get("sinks_H"):
        return "knows neither windows nor sinks"
    return None if site.phase == "decode" else "reads one query a sequence"


IMPL = Impl(op="paged_attention", provider="torch", fn=launch, refuses=refuses, status="native")
