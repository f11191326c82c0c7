"""Prefill over pages: keys and values of a sequence as one view (a copy, where its pages are scattered), then SDPA; alike neighbours together."""

from typing import Any

from day0.kernels.attention_torch import as_wide
from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    outputs, start = [], 0
    for b, count in _alike(segment):
        T = segment.queries[b]
        k, v = (_entries(pages, segment, b, count).transpose(1, 2) for pages in (k_pages, v_pages))
        v = as_wide(v, k)
        q = q_THQ[start : start + count * T].unflatten(0, (count, T)).transpose(1, 2)
        mask = _mask(segment, b, q_THQ.device)
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None and T > 1, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        outputs.append(out[..., : v_pages.shape[-1]].transpose(1, 2).flatten(0, 1))
        start += count * T
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _alike(segment: Any) -> list[tuple[int, int]]:
    """(first, how many): neighbours that are one call; found once a step."""
    if "alike" not in segment.shared:
        groups: list[tuple[int, int]] = []
        for b in range(len(segment.queries)):
            first, count = groups[-1] if groups else (b, 0)
            if count and _continues(segment, first, b):
                groups[-1] = (first, count + 1)
            else:
                groups.append((b, 1))
        segment.shared["alike"] = groups
    return segment.shared["alike"]


def _continues(segment: Any, first: int, b: int) -> bool:
    """Whether sequence `b` has the shape of the first one, and a run of pages that keeps the spacing."""
    queries, lengths, runs = segment.queries, segment.lengths, segment.runs
    if (queries[b], lengths[b]) != (queries[first], lengths[first]) or None in (runs[first], runs[first + 1], runs[b]):
        return False
    return runs[b] - runs[first] == (b - first) * (runs[first + 1] - runs[first]) > 0


def _entries(pages: Any, segment: Any, b: int, count: int) -> Any:
    """[count, S, …]: entries of sequence `b` and those after it, a view where there are several."""
    if count == 1:
        return segment.entries(pages, b, PAGED)[None]
    step = (segment.runs[b + 1] - segment.runs[b]) * pages.stride(0)
    first = pages[segment.runs[b]]
    return first.as_strided((count, segment.lengths[b], *first.shape[1:]), (step, *first.stride()))


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
