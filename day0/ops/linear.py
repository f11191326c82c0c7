"""Linear map x · weightᵀ + bias, or several of one input with their results side by side."""

from typing import Any

from day0.spec.cases import PACKED, Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def linear(x_TI: "torch.Tensor", weight_OI: Any, bias_O: Any = None) -> "torch.Tensor":
    """→ [T, O] in the type of x. `weight_OI` is a matrix, or matrices whose rows follow each other; then `bias_O` are vectors."""
    x = wide(x_TI)
    if isinstance(weight_OI, torch.Tensor):
        y_TO = x @ wide(weight_OI).to(x.dtype).T
    else:  # matrices are not joined, which would hold all of them a second time
        y_TO = torch.cat([x @ wide(matrix_OI).to(x.dtype).T for matrix_OI in weight_OI], dim=-1)
    if bias_O is not None:
        y_TO = y_TO + (bias_O if isinstance(bias_O, torch.Tensor) else torch.cat(list(bias_O)))
    return y_TO.to(x_TI.dtype)


def make(draw: Draw, T: int, O: tuple[int, ...], I: int, bias: bool, form: str = "plain") -> dict[str, Any]:  # noqa: E741
    if form != "plain":
        return {"x_TI": draw.normal(T, I), "weight_OI": draw.packed(form, O[0], I), "bias_O": draw.normal(O[0]) if bias else None}
    weights = tuple(draw.normal(rows, I, scale=I**-0.5) for rows in O)
    biases = tuple(draw.normal(rows) for rows in O) if bias else None
    if len(O) > 1:
        return {"x_TI": draw.normal(T, I), "weight_OI": weights, "bias_O": biases}
    return {"x_TI": draw.normal(T, I), "weight_OI": weights[0], "bias_O": biases[0] if biases else None}


def cost(site: Site) -> Cost:
    return Cost(flops=2 * site.T * site.O * site.I, bytes=2 * (site.O * site.I + site.T * (site.O + site.I)))


OP = Op(
    name="linear", reference=linear, inputs={"x": "TI", "weight": "OI", "bias": "O"}, outputs={"y": "TO"}, layer="base",
    cases=cases(make, T=(1, 2, 63), O=((1,), (60,), (1000,), (96, 24, 24)), I=(60, 1024), bias=(False, True))
    | cases(make, T=(1, 7, 63), O=((70,),), I=(60, 1100), bias=(True,), form=PACKED),
    budget=Budget(accumulations=1024), cost=cost,
)  # fmt: skip
