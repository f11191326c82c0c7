"""Causal convolution of each channel over its last few tokens, then SiLU (Mamba, arXiv 2312.00752, §3.4)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def short_convolution(
    x_TC: "torch.Tensor", weight_CJ: "torch.Tensor", carried_BSC: "torch.Tensor", queries: tuple[int, ...],
    bias_C: "torch.Tensor | None" = None, dilation: int = 1,
) -> "tuple[torch.Tensor, torch.Tensor]":  # fmt: skip
    """→ ([T, C], the new `carried_BSC`): `carried_BSC` are the last inputs of each sequence, `queries` its new tokens.

    The last tap meets the current token; taps are `dilation` tokens apart, so that (J - 1) · dilation inputs are carried.
    """
    taps_CJ = wide(weight_CJ)
    reach = (taps_CJ.shape[1] - 1) * dilation + 1
    outputs, carried = [], []
    for new_TC, before_JC in zip(x_TC.split(queries), carried_BSC, strict=True):
        inputs = torch.cat((before_JC.to(new_TC.dtype), new_TC))
        y_TC = torch.einsum("tcj,cj->tc", wide(inputs).unfold(0, reach, 1)[..., ::dilation], taps_CJ)
        outputs.append(functional.silu(y_TC if bias_C is None else y_TC + bias_C))
        carried.append(inputs[len(new_TC) :])
    return torch.cat(outputs).to(x_TC.dtype), torch.stack(carried)


def make(draw: Draw, queries: tuple[int, ...], C: int, J: int, bias: bool) -> dict[str, Any]:
    return {
        "x_TC": draw.normal(sum(queries), C), "weight_CJ": draw.normal(C, J), "carried_BSC": draw.normal(len(queries), J - 1, C),
        "queries": queries, "bias_C": draw.normal(C) if bias else None,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    return Cost(flops=2 * site.T * site.C * site.J, bytes=2 * site.C * (2 * site.T + site.J))


OP = Op(
    name="short_convolution", reference=short_convolution, inputs={"x": "TC", "weight": "CJ", "carried": "B(J-1)C", "bias": "C"},
    outputs={"y": "TC", "carried": "B(J-1)C"}, layer="domain", budget=Budget(rounds=2, accumulations=8, special=4), cost=cost,
    cases=cases(make, queries=((1,), (1, 1, 1), (2, 63, 1)), C=(60, 128), J=(2, 4), bias=(False, True)),
)  # fmt: skip
