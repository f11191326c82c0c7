"""Blocks of tokens that a query reads: those whose best key scores highest, and always the last ones (MiniMax-M3).

A block is `block` neighbouring positions of a sequence, counted from its start; its score is the largest q · key of what the query may see.
"""

from typing import Any

from day0.ops.paged_attention import scatter
from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.state import PAGED
from day0.spec.step import Segment


def choose_blocks(
    q_THQ: "torch.Tensor", pages: "torch.Tensor", segment: Segment, block: int, top_k: int, local: int
) -> "torch.Tensor":
    """→ [T, H, K] int64, best first, for each head of the indexer; -1 where a query sees fewer. Pages are [pages, tokens in a page, Q].

    The last `local` blocks that a query sees come first. Ties go to the lower block.
    """
    chosen_THK = torch.full((*q_THQ.shape[:2], top_k), -1, dtype=torch.int64, device=q_THQ.device)
    start = 0
    for b, count in enumerate(segment.queries):
        rows = slice(start, start + count)
        scores_THN = block_scores(wide(q_THQ[rows]), wide(segment.entries(pages, b, PAGED)), segment.positions_T[rows], block)
        last_T11 = segment.positions_T[rows, None, None] // block
        numbers_N = torch.arange(scores_THN.shape[-1], device=pages.device)
        scores_THN = scores_THN.masked_fill((numbers_N <= last_T11) & (numbers_N > last_T11 - local), float("inf"))
        ranked = scores_THN.sort(dim=-1, descending=True, stable=True)
        chosen_THN = ranked.indices.masked_fill(ranked.values == float("-inf"), -1)[..., :top_k]
        chosen_THK[rows, :, : chosen_THN.shape[-1]] = chosen_THN
        start += count
    return chosen_THK


def block_scores(q_THQ: "torch.Tensor", keys_SQ: "torch.Tensor", positions_T: "torch.Tensor", block: int) -> "torch.Tensor":
    """→ [T, H, blocks]: largest score in each block, minus infinity where a query sees none of it."""
    scores_THS = torch.einsum("thq,sq->ths", q_THQ, keys_SQ)
    later_TS = torch.arange(len(keys_SQ), device=keys_SQ.device) > positions_T[:, None]
    scores_THS = scores_THS.masked_fill(later_TS[:, None], float("-inf"))
    return functional.pad(scores_THS, (0, -len(keys_SQ) % block), value=float("-inf")).unflatten(-1, (-1, block)).amax(-1)


def make(
    draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, Q: int, K: int, block: int, scattered: bool
) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    arguments = {"q_THQ": draw.normal(sum(queries), H, Q), "pages": draw.normal(pages, 16, Q), "segment": segment}
    return arguments | {"block": block, "top_k": K, "local": 1 if K == 3 else 2}


def cost(site: Site) -> Cost:
    pairs = site.T * site.S
    return Cost(flops=2 * pairs * site.H * site.Q, bytes=2 * (site.S * site.Q + site.T * site.H * site.Q))


OP = Op(
    name="choose_blocks", reference=choose_blocks, inputs={"q": "THQ", "pages": "PSQ"}, outputs={"chosen": "THK"}, layer="domain",
    budget=Budget(exact=True), cost=cost,
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40)), before=((0, 0, 0), (63, 0, 130)), H=(1, 4), Q=(24, 64), K=(3, 20),
        block=(5,), scattered=(False, True),
    ),
)  # fmt: skip
