"""Rows of a table, one for each token."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch
from day0.spec.ops import Budget, Cost, Op, Site


def embedding(table_WD: "torch.Tensor", tokens_T: "torch.Tensor") -> "torch.Tensor":
    """→ [T, D]."""
    return table_WD[tokens_T]


def make(draw: Draw, T: int, W: int, D: int) -> dict[str, Any]:
    return {"table_WD": draw.normal(W, D), "tokens_T": draw.integers(W, T)}


def cost(site: Site) -> Cost:
    return Cost(flops=0, bytes=4 * site.T * site.D)


OP = Op(
    name="embedding", reference=embedding, inputs={"table": "WD", "tokens": "T"}, outputs={"x": "TD"}, layer="base",
    cases=cases(make, T=(1, 63), W=(1, 1000), D=(60, 128)), budget=Budget(exact=True), cost=cost,
)  # fmt: skip
