"""Causal attention of several sequences whose keys and values lie in pages (arXiv 2309.06180)."""

from typing import Any

from day0.ops.attention import attention
from day0.ops.attention import cost as attention_cost
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch
from day0.spec.ops import Budget, Op
from day0.spec.state import PAGED
from day0.spec.step import Segment


def paged_attention(
    q_THQ: "torch.Tensor", k_pages: "torch.Tensor", v_pages: "torch.Tensor", segment: Segment, scale: float
) -> "torch.Tensor":
    """→ [T, H, V]. Pages are [pages, tokens in a page, N, Q or V]; the new tokens' keys and values are already in them."""
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        k_SNQ, v_SNV = segment.entries(k_pages, b, PAGED), segment.entries(v_pages, b, PAGED)
        outputs.append(attention(q_THQ[start : start + count], k_SNQ, v_SNV, scale))
        start += count
    return torch.cat(outputs)


def make(draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, N: int, V: int, scattered: bool) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    Q = 40
    k_pages, v_pages = draw.normal(pages, 16, N, Q), draw.normal(pages, 16, N, V)
    return {"q_THQ": draw.normal(sum(queries), H, Q), "k_pages": k_pages, "v_pages": v_pages, "segment": segment, "scale": Q**-0.5}


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


OP = Op(
    name="paged_attention", reference=paged_attention, inputs={"q": "THQ", "k_pages": "PSNQ", "v_pages": "PSNV"}, outputs={"o": "THV"},
    layer="fused", budget=Budget(rounds=2, accumulations=64, special=8), cost=attention_cost,
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40)), before=((0, 0, 0), (63, 0, 130)), H=(6,), N=(1, 3), V=(40, 24),
        scattered=(False, True),
    ),
)  # fmt: skip
