"""Scores of a lightning indexer, Σ_h w_h · relu(q_h · k), for every query and every key it may see (arXiv 2512.02556, §2.1)."""

from typing import Any

from day0.ops.paged_attention import scatter
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.state import PAGED
from day0.spec.step import Segment


def index_scores(q_THQ: "torch.Tensor", weights_TH: "torch.Tensor", pages: "torch.Tensor", segment: Segment) -> "torch.Tensor":
    """→ [T, S] float32, S tokens of the longest sequence; minus infinity for later tokens and beyond a sequence's end.

    Pages are [pages, tokens in a page, Q]; the new tokens' keys are already in them.
    """
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        keys_SQ = wide(segment.entries(pages, b, PAGED))
        dots_THS = torch.einsum("thq,sq->ths", wide(q_THQ[start : start + count]), keys_SQ)
        scores_TS = torch.einsum("th,ths->ts", weights_TH[start : start + count].to(dots_THS.dtype), dots_THS.relu())
        S = keys_SQ.shape[0]
        later_TS = torch.ones(count, S, dtype=torch.bool, device=pages.device).triu(S - count + 1)
        padding = (0, segment.longest - S)
        outputs.append(torch.nn.functional.pad(scores_TS.masked_fill(later_TS, float("-inf")), padding, value=float("-inf")))
        start += count
    return torch.cat(outputs)


def make(draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, Q: int, scattered: bool) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    weights_TH = draw.normal(sum(queries), H, scale=(H * Q) ** -0.5, dtype=torch.float32)
    return {"q_THQ": draw.normal(sum(queries), H, Q), "weights_TH": weights_TH, "pages": draw.normal(pages, 16, Q), "segment": segment}


def cost(site: Site) -> Cost:
    pairs = site.T * site.S
    return Cost(flops=2 * pairs * site.H * (site.Q + 1), bytes=2 * (site.S + site.T * site.H) * site.Q + 4 * pairs)


OP = Op(
    name="index_scores", reference=index_scores, inputs={"q": "THQ", "weights": "TH", "pages": "PSQ"}, outputs={"scores": "TS"},
    layer="domain", budget=Budget(accumulations=256), cost=cost,
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40)), before=((30, 9, 77), (63, 15, 130)), H=(1, 6), Q=(24, 64), scattered=(False, True),
    ),
)  # fmt: skip
