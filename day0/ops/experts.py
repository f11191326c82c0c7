"""The chosen experts of each token, weighed and summed: Σ_k w_k · down_e(activation(gate_e x) · up_e x) (arXiv 2401.06066)."""

from typing import Any

from day0.ops.gated_activation import gated_activation
from day0.ops.linear import linear
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def experts(
    x_TD: "torch.Tensor", weights_TK: "torch.Tensor", experts_TK: "torch.Tensor",
    gate_EFD: Any, up_EFD: Any, down_EDF: Any, activation: str,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, D]. The three banks are indexed by expert, one at a time: tensors, or what decodes an expert when asked for it."""
    y_TD = torch.zeros_like(wide(x_TD))
    for e in experts_TK.unique().tolist():
        rows, places = (experts_TK == e).nonzero(as_tuple=True)
        x = wide(x_TD[rows])
        hidden = gated_activation(linear(x, wide(gate_EFD[e])), linear(x, wide(up_EFD[e])), activation)
        y_TD.index_add_(0, rows, linear(hidden, wide(down_EDF[e])) * weights_TK[rows, places, None].to(y_TD.dtype))
    return y_TD.to(x_TD.dtype)


def make(draw: Draw, T: int, D: int, F: int, E: int, K: int) -> dict[str, Any]:
    chosen = torch.stack([torch.randperm(E, generator=draw.generator)[:K] for _ in range(T)])
    return {
        "x_TD": draw.normal(T, D),
        "weights_TK": draw.normal(T, K, dtype=torch.float32).softmax(-1),
        "experts_TK": chosen,
        "gate_EFD": draw.normal(E, F, D, scale=D**-0.5),
        "up_EFD": draw.normal(E, F, D, scale=D**-0.5),
        "down_EDF": draw.normal(E, D, F, scale=F**-0.5),
        "activation": "silu",
    }


def cost(site: Site) -> Cost:
    touched = site.E * (1 - (1 - site.K / site.E) ** site.T)
    return Cost(flops=6 * site.T * site.K * site.D * site.F, bytes=2 * (3 * touched * site.D * site.F + 2 * site.T * site.D))


OP = Op(
    name="experts", reference=experts, inputs={"x": "TD", "weights": "TK", "experts": "TK", "gate": "EFD", "up": "EFD", "down": "EDF"},
    outputs={"y": "TD"}, layer="domain", budget=Budget(rounds=6, accumulations=64, special=8), cost=cost,
    cases=cases(make, T=(1, 63), D=(60, 128), F=(36, 100), E=(9,), K=(1, 3)),
)  # fmt: skip
