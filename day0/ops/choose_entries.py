"""Entries that a query reads: the best by Σ_h weight_h · relu(q_h · key), over compressed keys (lightning indexer of DeepSeek-V4, §2.3.1).

An entry counts for a query once all its tokens are at or before it. Ties go to the lower index.
"""

from typing import Any

from day0.ops.paged_attention import scatter
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.step import Segment


def choose_entries(
    q_THQ: "torch.Tensor", weights_TH: "torch.Tensor", pool: "torch.Tensor", segment: Segment, every: int, top_k: int, scale: float
) -> "torch.Tensor":
    """→ [T, K] int64, numbers of entries within their sequence, best first; -1 where there are fewer. The pool is [pages, entries, Q]."""
    chosen_TK = torch.full((len(q_THQ), top_k), -1, dtype=torch.int64, device=q_THQ.device)
    start = 0
    for b, count in enumerate(segment.queries):
        rows = slice(start, start + count)
        keys_NQ = wide(segment.entries(pool, b, ("compressed", every, None)))
        scores_THN = torch.einsum("thq,nq->thn", wide(q_THQ[rows]), keys_NQ).relu() * scale
        scores_TN = (scores_THN * wide(weights_TH[rows])[..., None]).sum(1)
        best_TK, order_TK = visible_first(scores_TN, segment.positions_T[rows], every)
        found = min(top_k, len(keys_NQ))
        chosen_TK[rows, :found] = order_TK[:, :found].masked_fill(best_TK[:, :found] == float("-inf"), -1)
        start += count
    return chosen_TK


def visible_first(scores_TN: "torch.Tensor", positions_T: "torch.Tensor", every: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """(scores, entries) in falling order; entries that are not complete at a query's position are last, at minus infinity."""
    complete_T = (positions_T + 1) // every
    later = torch.arange(scores_TN.shape[1], device=scores_TN.device) >= complete_T[:, None]
    ranked = scores_TN.masked_fill(later, float("-inf")).sort(dim=-1, descending=True, stable=True)
    return ranked.values, ranked.indices


def make(draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, Q: int, K: int, scattered: bool) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    arguments = {"q_THQ": draw.normal(sum(queries), H, Q), "weights_TH": draw.normal(sum(queries), H), "pool": draw.normal(pages, 4, Q)}
    return arguments | {"segment": segment, "every": 4, "top_k": K, "scale": (H * Q) ** -0.5}


def cost(site: Site) -> Cost:
    entries = site.S / site.options["every"]
    return Cost(flops=2 * site.T * entries * site.H * (site.Q + 1), bytes=2 * (entries * site.Q + site.T * site.H * site.Q))


OP = Op(
    name="choose_entries", reference=choose_entries, inputs={"q": "THQ", "weights": "TH", "pool": "PSQ"}, outputs={"chosen": "TK"},
    layer="domain", budget=Budget(exact=True), cost=cost,
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40)), before=((0, 0, 0), (63, 0, 130)), H=(16,), Q=(24, 64), K=(3, 20),
        scattered=(False, True),
    ),
)  # fmt: skip
