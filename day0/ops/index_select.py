"""The best-scored tokens of each query (DeepSeek-V3.2, arXiv 2512.02556, §2.1)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch
from day0.spec.ops import Budget, Cost, Op, Site


def index_select(scores_TS: "torch.Tensor", top_k: int) -> "torch.Tensor":
    """→ [T, K] int64, K = min(top_k, S): chosen positions in ascending order, -1 after the last one where fewer can be seen.

    What cannot be seen has the score minus infinity. Ties go to the lower position.
    """
    S = scores_TS.shape[1]
    chosen_TK = scores_TS.sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    unseen_TK = scores_TS.gather(-1, chosen_TK) == float("-inf")
    ordered_TK = chosen_TK.masked_fill(unseen_TK, S).sort(dim=-1).values
    return ordered_TK.masked_fill(ordered_TK == S, -1)


def make(draw: Draw, T: int, S: int, K: int, ties: bool) -> dict[str, Any]:
    scores_TS = torch.randn(T, S, generator=draw.generator)
    if ties:
        scores_TS = (scores_TS * 2).round().relu()
    seen_T = draw.integers(S, T)
    return {"scores_TS": scores_TS.masked_fill(torch.arange(S) > seen_T[:, None], float("-inf")), "top_k": K}


def cost(site: Site) -> Cost:
    return Cost(flops=4 * site.T * site.S, bytes=4 * site.T * site.S + 8 * site.T * site.K)


OP = Op(
    name="index_select", reference=index_select, inputs={"scores": "TS"}, outputs={"indices": "TK"}, layer="domain",
    cases=cases(make, T=(1, 63), S=(1, 9, 1000), K=(1, 9, 64), ties=(False, True)), budget=Budget(exact=True), cost=cost,
)  # fmt: skip
