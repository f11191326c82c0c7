"""Windows, chunks and sinks by matrix products over blocks of queries, each with the keys that the block can see; scores in float32."""

from typing import Any

from day0.spec.lazy import torch, wide
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED

QUERIES = 128  # of one block, so that a long prompt reads little beyond its windows
ELEMENTS = 1 << 26  # of one block's scores


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    group = PAGED if window is None else ("window", 1, window)
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        k, v = (segment.entries(pages, b, group).transpose(0, 1) for pages in (k_pages, v_pages))
        end, first = segment.lengths[b], segment.first(b, group)
        block = max(1, min(QUERIES, ELEMENTS // (q_THQ.shape[1] * k.shape[1])))
        for position in range(end - count, end, block):
            last = min(position + block, end)
            low = first if window is None else max(first, position // window * window if chunked else position - window + 1)
            places = slice(low - first, last - first)
            q = q_THQ[start : start + last - position]
            seen = _seen(position, last, low, window, chunked, q.device)
            outputs.append(_block(q, k[:, places], v[:, places], scale, sinks_H, seen))
            start += last - position
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _block(q_THQ: Any, k_NSQ: Any, v_NSV: Any, scale: float, sinks_H: Any, seen_TS: Any) -> Any:
    """[T, H, V]: the query heads that share a key head are rows of one product."""
    T, H, Q = q_THQ.shape
    N, S, V = v_NSV.shape
    q = wide(q_THQ).view(T, N, H // N, Q).permute(1, 2, 0, 3).reshape(N, -1, Q)
    scores = torch.bmm(q * scale, wide(k_NSQ).transpose(1, 2)).view(H, T, S)
    if seen_TS is not None:
        scores.masked_fill_(~seen_TS, float("-inf"))
    if sinks_H is not None:
        scores = torch.cat((scores, wide(sinks_H)[:, None, None].expand(H, T, 1)), dim=-1)
    weights = scores.softmax(-1)[..., :S].reshape(N, -1, S)
    out = torch.bmm(weights, wide(v_NSV)).view(N, H // N, T, V)
    return out.permute(2, 0, 1, 3).reshape(T, H, V).to(q_THQ.dtype)


def _seen(position: int, last: int, low: int, window: int | None, chunked: bool, device: Any) -> Any:
    """[T, S] for queries from `position` and keys from `low`; None for one query, whose keys are all to be seen."""
    if last - position == 1:
        return None
    queries, keys = torch.arange(position, last, device=device)[:, None], torch.arange(low, last, device=device)
    seen = keys <= queries
    if window is None:
        return seen
    return seen & (keys >= queries - queries % window if chunked else keys > queries - window)


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="paged_attention", provider="torch", fn=launch, refuses=refuses, status="composite")
