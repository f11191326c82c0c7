"""A sublayer's result spread over several residual streams that are mixed among each other (arXiv 2512.24880).

Of rms(flatten(streams)) · weightᵀ · scale + base the first M become post = 2 · sigmoid, the others an M × M matrix comb that Sinkhorn's
iterations make doubly stochastic. streams' = post ⊗ y + combᵀ · streams.
"""

from typing import Any

from day0.ops.hyper_collapse import mixed
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def hyper_expand(
    streams_TMD: "torch.Tensor", y_TD: "torch.Tensor", weight_OX: "torch.Tensor", base_O: "torch.Tensor", scale: "torch.Tensor",
    iterations: int, floor: float, eps: float,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, M, D]. O = M + M · M rows; `scale` holds two numbers, for post and comb; `floor` keeps comb and its sums above zero."""
    M = streams_TMD.shape[1]
    post_TM, comb_TX = mixed(streams_TMD, weight_OX, eps).split((M, M * M), dim=-1)
    post_scale, comb_scale = wide(scale)
    post_base, comb_base = wide(base_O).split((M, M * M))
    post_TM = 2 * torch.sigmoid(post_TM * post_scale + post_base)
    comb_TMM = sinkhorn((comb_TX * comb_scale + comb_base).unflatten(-1, (M, M)), iterations, floor)
    return (post_TM[..., None] * wide(y_TD)[:, None] + comb_TMM.transpose(1, 2) @ wide(streams_TMD)).to(streams_TMD.dtype)


def sinkhorn(logits_TMM: "torch.Tensor", iterations: int, floor: float) -> "torch.Tensor":
    """→ [T, M, M]: softmax over rows, then columns and rows divided by their sums in turn, `iterations` times, columns last."""
    comb = logits_TMM.softmax(-1) + floor
    comb = comb / (comb.sum(-2, keepdim=True) + floor)
    for _ in range(iterations - 1):
        comb = comb / (comb.sum(-1, keepdim=True) + floor)
        comb = comb / (comb.sum(-2, keepdim=True) + floor)
    return comb


def make(draw: Draw, T: int, M: int, D: int, iterations: int) -> dict[str, Any]:
    rows = M + M * M
    return {
        "streams_TMD": draw.normal(T, M, D, scale=3),
        "y_TD": draw.normal(T, D),
        "weight_OX": draw.normal(rows, M * D, scale=(M * D) ** -0.5, dtype=torch.float32),
        "base_O": draw.normal(rows, dtype=torch.float32),
        "scale": draw.normal(2, dtype=torch.float32),
        "iterations": iterations,
        "floor": 1e-6,
        "eps": 1e-6,
    }


def cost(site: Site) -> Cost:
    width, rows = site.M * site.D, site.M * (site.M + 1)
    return Cost(flops=2 * site.T * width * (rows + site.M + 2), bytes=4 * rows * width + 2 * site.T * (2 * width + site.D))


OP = Op(
    name="hyper_expand", reference=hyper_expand, inputs={"streams": "TMD", "y": "TD", "weight": "OI", "base": "O", "scale": "G"},
    outputs={"streams": "TMD"}, layer="domain", cases=cases(make, T=(1, 63), M=(3, 4), D=(60, 128), iterations=(3, 20)),
    budget=Budget(accumulations=512, special=16), cost=cost,
)  # fmt: skip
