"""Causal attention of several sequences whose keys and values lie in pages (arXiv 2309.06180), or in rings that hold a window.

A window (arXiv 2004.05150) is what a query sees: itself and so many tokens before it; where it is chunked, those of its own chunk of
positions (Llama 4). A sink (gpt-oss) is a learned score that takes its share of the softmax and has no value.
"""

from typing import Any

from day0.ops.attention import attention
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.state import PAGED, Group
from day0.spec.step import Segment


def paged_attention(
    q_THQ: "torch.Tensor", k_pages: "torch.Tensor", v_pages: "torch.Tensor", segment: Segment, scale: float,
    sinks_H: "torch.Tensor | None" = None, window: int | None = None, chunked: bool = False,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, H, V]. Pages are [pages, tokens in a page, N, Q or V]; the new tokens' keys and values are already in them.

    `window`: positions that a query sees, its own included, or the length of a chunk; pages are then [sequences, ring, N, Q or V].
    """
    group: Group = PAGED if window is None else ("window", 1, window)
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        k_SNQ, v_SNV = segment.entries(k_pages, b, group), segment.entries(v_pages, b, group)
        positions_T = torch.arange(segment.lengths[b] - count, segment.lengths[b], device=q_THQ.device)
        positions_S = torch.arange(segment.first(b, group), segment.lengths[b], device=q_THQ.device)
        seen_TS = visible(positions_T, positions_S, window, chunked)
        outputs.append(attention(q_THQ[start : start + count], k_SNQ, v_SNV, scale, sinks_H, seen_TS))
        start += count
    return torch.cat(outputs)


def visible(positions_T: "torch.Tensor", positions_S: "torch.Tensor", window: int | None, chunked: bool) -> "torch.Tensor":
    """→ [T, S], true where the query at one position sees the key at the other."""
    queries, keys = positions_T[:, None], positions_S[None, :]
    seen = keys <= queries
    if window is None:
        return seen
    return seen & (keys >= queries - queries % window if chunked else keys > queries - window)


def make(
    draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, N: int, Q: int, V: int, scattered: bool, kind: str, sinks: bool
) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    size, window = 16, None
    if kind != "all":
        window = 20
        pages, size = len(queries), window - 1 + max(queries)
    k_pages, v_pages = draw.normal(pages, size, N, Q), draw.normal(pages, size, N, V)
    arguments = {"q_THQ": draw.normal(sum(queries), H, Q), "k_pages": k_pages, "v_pages": v_pages, "segment": segment, "scale": Q**-0.5}
    return arguments | {"sinks_H": draw.normal(H) if sinks else None, "window": window, "chunked": kind == "chunk"}


def scatter(draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], scattered: bool) -> tuple[Segment, int]:
    """A segment over pages of 16 tokens, in random order or one run each, and the number of pages."""
    lengths = tuple(q + b for q, b in zip(queries, before, strict=False))
    counts = [-(-length // 16) for length in lengths]
    order = torch.randperm(sum(counts), generator=draw.generator) if scattered else torch.arange(sum(counts))
    tables = torch.zeros(len(counts), max(counts), dtype=torch.int64)
    starts = []
    for b, (mine, count) in enumerate(zip(order.split(counts), counts, strict=True)):
        tables[b, :count] = mine
        starts.append(None if scattered else int(mine[0]))
    segment = Segment(
        phase="decode" if max(queries) == 1 else "prefill", tokens_T=torch.zeros(sum(queries), dtype=torch.int64),
        positions_T=torch.cat([torch.arange(n - q, n) for q, n in zip(queries, lengths, strict=True)]), queries=queries, lengths=lengths,
        entries_N={}, table_BP=tables, runs=tuple(starts), slots=tuple(range(len(queries))),
    )  # fmt: skip
    return segment, sum(counts)


def cost(site: Site) -> Cost:
    S = min(site.S, site.options.get("window") or site.S)
    pairs = site.T * S
    return Cost(flops=2 * pairs * site.H * (site.Q + site.V), bytes=2 * (S * site.N + site.T * site.H) * (site.Q + site.V))


OP = Op(
    name="paged_attention", reference=paged_attention, outputs={"o": "THV"}, layer="fused", cost=cost,
    inputs={"q": "THQ", "k_pages": "PSNQ", "v_pages": "PSNV", "sinks": "H"}, budget=Budget(rounds=2, accumulations=64, special=8),
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40), (9, 9, 9)), before=((0, 0, 0), (63, 0, 130)), H=(6,), N=(1, 3), Q=(40,), V=(40, 24),
        scattered=(False, True), kind=("all", "window", "chunk"), sinks=(False, True),
    ),
)  # fmt: skip
