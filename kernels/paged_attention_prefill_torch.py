"""Prefill over pages: each sequence's keys and values as one view (or one copy, where its pages are scattered), then SDPA."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    outputs, start = [], 0
    for b, T in enumerate(segment.queries):
        k, v = (segment.entries(pages, b, PAGED).transpose(0, 1)[None] for pages in (k_pages, v_pages))
        q = q_THQ[start : start + T].transpose(0, 1)[None]
        mask = _mask(segment, b, q_THQ.device)
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None and T > 1, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        outputs.append(out[0].transpose(0, 1))
        start += T
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _mask(segment: Any, b: int, device: Any) -> Any:
    """What the queries of a later chunk may see; made once a step. None where the causal rule says it all."""
    T, S = segment.queries[b], segment.lengths[b]
    if T in (1, S):
        return None
    key = ("causal", b)
    if key not in segment.shared:
        segment.shared[key] = torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)
    return segment.shared[key]


def refuses(site: Site, machine: Any) -> str | None:
    if site.options.get("window") or site.options.get("sinks_H"):
        return "knows neither windows nor sinks"
    return None if site.phase == "prefill" else "one query a sequence: the decode kernel is faster"


IMPL = Impl(op="paged_attention", provider="torch", fn=launch, refuses=refuses, status="native")
