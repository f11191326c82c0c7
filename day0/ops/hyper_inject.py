"""A sublayer's result added to several residual streams, to each with a factor 2 · sigmoid(inject · n / M), n their norms side by side."""

from typing import Any

from day0.ops.hyper_mix import normed
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def hyper_inject(
    streams_TMD: "torch.Tensor", y_TD: "torch.Tensor", norm_I: "torch.Tensor", inject_MI: "torch.Tensor", eps: float
) -> "torch.Tensor":
    """→ [T, M, D]. I = M · D; `norm_I` is stored as its difference from one."""
    flat_TI = normed(streams_TMD, norm_I, eps).flatten(1)
    factors_TM = 2 * torch.sigmoid(flat_TI @ wide(inject_MI).to(flat_TI.dtype).T / streams_TMD.shape[1])
    return (wide(streams_TMD) + factors_TM[..., None] * wide(y_TD)[:, None]).to(streams_TMD.dtype)


def make(draw: Draw, T: int, M: int, D: int) -> dict[str, Any]:
    width = M * D
    return {
        "streams_TMD": draw.normal(T, M, D, scale=3), "y_TD": draw.normal(T, D), "norm_I": draw.normal(width, scale=0.2),
        "inject_MI": draw.normal(M, width, scale=width**-0.5), "eps": 1e-6,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    return Cost(flops=2 * site.T * site.I * (site.M + 2), bytes=2 * site.M * site.I + 2 * site.T * (2 * site.I + site.D))


OP = Op(
    name="hyper_inject", reference=hyper_inject, inputs={"streams": "TMD", "y": "TD", "norm": "I", "inject": "MI"},
    outputs={"streams": "TMD"}, layer="domain", cases=cases(make, T=(1, 63), M=(3, 4), D=(60, 128)),
    budget=Budget(accumulations=512, special=8), cost=cost,
)  # fmt: skip
