"""Decode over pages: the query heads that share a key head are the rows of one SDPA call, so that keys are read once and never repeated."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED

MANY, SMALL = 4, 1 << 17  # from so many sequences on, copying less than so many bytes each costs less than a call each


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    B, H, Q = q_THQ.shape
    N, V = k_pages.shape[2], v_pages.shape[3]
    q = q_THQ.view(B, N, H // N, Q)
    sequence_bytes = segment.longest * N * (Q + V) * k_pages.element_size()
    if None not in segment.runs and (B < MANY or sequence_bytes > SMALL):
        out = torch.cat([_one(q[b : b + 1], k_pages, v_pages, segment, b, scale) for b in range(B)]) if B > 1 else None
        return (_one(q, k_pages, v_pages, segment, 0, scale) if out is None else out).reshape(B, H, V)
    absent_BS = _absent(segment, k_pages.shape[1], q_THQ.device)
    k, v = (_gathered(pages, segment, absent_BS) for pages in (k_pages, v_pages))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=~absent_BS[:, None, None], scale=scale).reshape(B, H, V)


def _one(q: Any, k_pages: Any, v_pages: Any, segment: Any, b: int, scale: float) -> Any:
    k, v = (segment.entries(pages, b, PAGED).transpose(0, 1)[None] for pages in (k_pages, v_pages))
    return functional.scaled_dot_product_attention(q, k, v, scale=scale)


def _gathered(pages: Any, segment: Any, absent_BS: Any) -> Any:
    """[B, N, S, …]: every sequence's entries, copied; what pages hold beyond them becomes 0, because a mask does not stop a NaN."""
    return pages[segment.table_BP].flatten(1, 2).masked_fill_(absent_BS[:, :, None, None], 0).transpose(1, 2)


def _absent(segment: Any, page: int, device: Any) -> Any:
    """[B, S]: places in the pages of each sequence that hold no entry of it; made once a step."""
    if "absent" not in segment.shared:
        lengths_B = torch.tensor(segment.lengths, device=device)
        segment.shared["absent"] = torch.arange(segment.table_BP.shape[1] * page, device=device) >= lengths_B[:, None]
    return segment.shared["absent"]


def refuses(site: Site, machine: Any) -> str | None:
    if site.options.get("window") or site.options.get("sinks_H"):
        return "knows neither windows nor sinks"
    return None if site.phase == "decode" else "reads one query a sequence"


IMPL = Impl(op="paged_attention", provider="torch", fn=launch, refuses=refuses, status="native")
