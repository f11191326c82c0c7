"""Several linear maps of one input, their results side by side."""

from collections.abc import Iterable
from typing import Any

from day0.ops.linear import cost, linear
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch
from day0.spec.ops import Budget, Op


def linears(
    x_TI: "torch.Tensor", weights: "Iterable[torch.Tensor]", biases: "Iterable[torch.Tensor] | None" = None
) -> "torch.Tensor":
    """→ [T, sum of O], in the order of the weights [O, I]."""
    matrices = list(weights)
    offsets = [None] * len(matrices) if biases is None else list(biases)
    return torch.cat([linear(x_TI, weight_OI, bias_O) for weight_OI, bias_O in zip(matrices, offsets, strict=True)], dim=-1)


def make(draw: Draw, T: int, O: tuple[int, ...], I: int, bias: bool) -> dict[str, Any]:  # noqa: E741
    weights = tuple(draw.normal(rows, I, scale=I**-0.5) for rows in O)
    return {"x_TI": draw.normal(T, I), "weights": weights, "biases": tuple(draw.normal(rows) for rows in O) if bias else None}


OP = Op(
    name="linears", reference=linears, inputs={"x": "TI", "weights": "OI", "biases": "O"}, outputs={"y": "TO"}, layer="fused",
    cases=cases(make, T=(1, 63), O=((60,), (96, 24, 24)), I=(60, 1000), bias=(False, True)), budget=Budget(accumulations=1024), cost=cost,
)  # fmt: skip
