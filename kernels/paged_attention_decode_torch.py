"""Decode over pages: the query heads that share a key head are the rows of one SDPA call, so that keys are read once and never repeated."""

from typing import Any

from day0.spec.dtype import size
from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED

MANY, SMALL = 4, 1 << 19  # from so many sequences on, copying at most so many bytes of each costs less than a call each


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    B, H, Q = q_THQ.shape
    N, V = k_pages.shape[2], v_pages.shape[3]
    q = q_THQ.view(B, N, H // N, Q)
    if B < MANY or segment.longest > few(N, Q, V, k_pages.element_size()):
        outputs = [_one(q[b : b + 1], k_pages, v_pages, segment, b, scale) for b in range(B)]
        return (outputs[0] if B == 1 else torch.cat(outputs)).reshape(B, H, V)
    absent_N, mask = _absent(segment, k_pages)
    k, v = (_gathered(pages, segment, absent_N) for pages in (k_pages, v_pages))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).reshape(B, H, V)


def few(N: int, Q: int, V: int, width: int) -> int:
    """Tokens of a sequence that are copied at the most, of elements of so many bytes."""
    return SMALL // (N * (Q + V) * width)


def turns(site: Site) -> tuple[int, ...]:
    return (few(site.N, site.Q, site.V, size(site.dtype, 1)) + 1,)


def _one(q: Any, k_pages: Any, v_pages: Any, segment: Any, b: int, scale: float) -> Any:
    k, v = (segment.entries(pages, b, PAGED).transpose(0, 1)[None] for pages in (k_pages, v_pages))
    return functional.scaled_dot_product_attention(q, k, v, scale=scale)


def _gathered(pages: Any, segment: Any, absent_N: Any) -> Any:
    """[B, N, S, …]: every sequence's entries, copied; what pages hold beyond them becomes 0, because a mask does not stop a NaN."""
    entries = pages.index_select(0, segment.table_BP.flatten()).flatten(0, 1)
    if absent_N is not None:
        entries.index_fill_(0, absent_N, 0)
    return entries.unflatten(0, (segment.table_BP.shape[0], -1))[:, : segment.longest].transpose(1, 2)


def _absent(segment: Any, k_pages: Any) -> tuple[Any, Any]:
    """Places in the gathered pages that hold no entry of their sequence, and the mask that hides them; made once a step.

    (None, None) where all sequences are of one length.
    """
    if len(set(segment.lengths)) == 1:
        return None, None
    if "absent" not in segment.shared:
        S = segment.table_BP.shape[1] * k_pages.shape[1]
        absent_BS = torch.arange(S, device=k_pages.device) >= torch.tensor(segment.lengths, device=k_pages.device)[:, None]
        hidden_BS = absent_BS[:, : segment.longest]
        mask = torch.zeros(hidden_BS.shape, dtype=k_pages.dtype, device=k_pages.device).masked_fill_(hidden_BS, float("-inf"))
        segment.shared["absent"] = absent_BS.flatten().nonzero().flatten(), mask[:, None, None]
    return segment.shared["absent"]


def refuses(site: Site, machine: Any) -> str | None:
    if site.options.get("window") or site.options.get("sinks_H"):
        return "knows neither windows nor sinks"
    return None if site.phase == "decode" else "reads one query a sequence"


IMPL = Impl(op="paged_attention", provider="torch", fn=launch, refuses=refuses, status="native", turns=turns)
