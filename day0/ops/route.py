"""Choose experts for each token and weigh them.

Softmax over all experts, then the best k (arXiv 2101.03961); or sigmoid scores with a correction bias that takes part in the choice only,
and a choice limited to the best groups (DeepSeek-V3, arXiv 2412.19437, §2.1.2); or the best logits first, scored among themselves; or a
choice that a table makes by token id. Ties go to the lower index.
"""

from types import SimpleNamespace
from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def route(
    logits_TE: "torch.Tensor", top_k: int, rule: Any, bias_E: "torch.Tensor | None" = None, given_TK: "torch.Tensor | None" = None
) -> "tuple[torch.Tensor, torch.Tensor]":
    """→ (weights [T, K] float32, experts [T, K] int64). `rule` has the fields of `parts.moe_ffn.Router`; `given_TK` is a table's choice."""
    if given_TK is not None:
        return weigh(logits_TE, given_TK, rule), given_TK
    ranked_TE = wide(logits_TE) if rule.choice_first else scores(logits_TE, rule)
    choice_TE = ranked_TE if bias_E is None else ranked_TE + bias_E
    if rule.groups > 1:
        choice_TE = _limit_groups(choice_TE, rule.groups, rule.top_groups)
    experts_TK = choice_TE.sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    return weigh(logits_TE, experts_TK, rule), experts_TK


def scores(logits_TE: "torch.Tensor", rule: Any) -> "torch.Tensor":
    """→ [T, E] or [T, K], before any correction."""
    logits = wide(logits_TE)
    return {"softmax": lambda: logits.softmax(-1), "sigmoid": logits.sigmoid, "sqrt_softplus": lambda: functional.softplus(logits).sqrt()}[
        rule.score
    ]()


def weigh(logits_TE: "torch.Tensor", experts_TK: "torch.Tensor", rule: Any) -> "torch.Tensor":
    """→ [T, K]: factor of each chosen expert."""
    first = rule.choice_first
    weights_TK = scores(logits_TE.gather(-1, experts_TK), rule) if first else scores(logits_TE, rule).gather(-1, experts_TK)
    if rule.renormalise:
        weights_TK = weights_TK / (weights_TK.sum(-1, keepdim=True) + rule.epsilon)
    return weights_TK * rule.scale


def _limit_groups(choice_TE: "torch.Tensor", groups: int, top_groups: int) -> "torch.Tensor":
    """Scores outside the best groups become minus infinity; a group's score is the sum of its two best."""
    T, E = choice_TE.shape
    grouped = choice_TE.view(T, groups, E // groups)
    scores_TG = grouped.topk(min(2, E // groups), dim=-1).values.sum(-1)
    kept_TG = torch.zeros_like(scores_TG, dtype=torch.bool)
    kept_TG.scatter_(1, scores_TG.sort(dim=-1, descending=True, stable=True).indices[:, :top_groups], True)
    return grouped.masked_fill(~kept_TG[..., None], float("-inf")).view(T, E)


def make(draw: Draw, T: int, E: int, K: int, score: str, groups: int, choice_first: bool) -> dict[str, Any]:
    rule = SimpleNamespace(
        score=score, groups=groups, top_groups=max(1, groups // 2), renormalise=score == "sigmoid", epsilon=1e-20, scale=2.5,
        choice_first=choice_first, table=False,
    )  # fmt: skip
    bias = draw.normal(E, scale=0.1, dtype=torch.float32) if score == "sigmoid" else None
    return {"logits_TE": draw.normal(T, E, scale=2, dtype=torch.float32), "top_k": K, "rule": rule, "bias_E": bias}


def cost(site: Site) -> Cost:
    return Cost(flops=10 * site.T * site.E, bytes=4 * site.T * site.E)


OP = Op(
    name="route", reference=route, inputs={"logits": "TE", "bias": "E"}, outputs={"weights": "TK", "experts": "TK"}, layer="domain",
    cases=cases(
        make, T=(1, 63), E=(8, 60), K=(1, 3), score=("softmax", "sigmoid", "sqrt_softplus"), groups=(1, 4), choice_first=(False, True)
    ),
    budget=Budget(special=8), cost=cost,
)  # fmt: skip
