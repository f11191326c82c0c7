"""The chosen experts of each token, weighed and summed: Σ_k w_k · down_e(activation(gate_e x) · up_e x) (arXiv 2401.06066)."""

from typing import Any

from day0.ops.activation import ungated
from day0.ops.gated_activation import gated_activation
from day0.ops.linear import linear
from day0.spec.activation import Activation
from day0.spec.cases import PACKED, Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def experts(
    x_TD: "torch.Tensor", weights_TK: "torch.Tensor", experts_TK: "torch.Tensor",
    gate_EFD: Any, up_EFD: Any, down_EDF: Any, activation: Activation,
    biases: "tuple[torch.Tensor | None, torch.Tensor, torch.Tensor] | None" = None, identity_from: int | None = None,
    scale_input: bool = False,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, D]. The banks are indexed by expert, one at a time: tensors, or what decodes an expert when asked for it.

    `gate_EFD` is None where experts have two matrices. `biases`: of gate, up [E, F] and down [E, D]. Experts from `identity_from` on
    return their input. `scale_input`: the weight multiplies the expert's input instead of its output.
    """
    y_TD = torch.zeros_like(wide(x_TD))
    for e in experts_TK.unique().tolist():
        rows, places = (experts_TK == e).nonzero(as_tuple=True)
        x, weight = wide(x_TD[rows]), weights_TK[rows, places, None].to(y_TD.dtype)
        if scale_input:
            x, weight = x * weight, torch.ones_like(weight)
        if identity_from is None or e < identity_from:
            gate_b, up_b, down_b = (None, None, None) if biases is None else (b if b is None else wide(b[e]) for b in biases)
            up = linear(x, wide(up_EFD[e]), up_b)
            hidden = gated_activation(linear(x, wide(gate_EFD[e]), gate_b), up, activation) if activation.gated else ungated(up, activation)
            x = linear(hidden, wide(down_EDF[e]), down_b)
        y_TD.index_add_(0, rows, x * weight)
    return y_TD.to(x_TD.dtype)


def make(draw: Draw, T: int, D: int, F: int, K: int, variant: str, form: str = "plain") -> dict[str, Any]:
    E = 9
    identities = 3 if variant == "identities" else 0
    chosen = torch.stack([torch.randperm(E + identities, generator=draw.generator)[:K] for _ in range(T)])
    arguments = {
        "x_TD": draw.normal(T, D),
        "weights_TK": draw.normal(T, K, dtype=torch.float32).softmax(-1),
        "experts_TK": chosen,
        "gate_EFD": None if variant == "ungated" else _bank(draw, form, E, F, D),
        "up_EFD": _bank(draw, form, E, F, D),
        "down_EDF": _bank(draw, form, E, D, F),
        "activation": Activation(kind="relu2", gated=False) if variant == "ungated" else Activation(kind="silu"),
    }
    if variant == "biases":
        arguments["activation"] = Activation(kind="silu", limit=7.0, alpha=1.702, offset=1.0)
        arguments["biases"] = (draw.normal(E, F), draw.normal(E, F), draw.normal(E, D))
    return arguments | {"identity_from": E if identities else None, "scale_input": variant == "scale_input"}


def _bank(draw: Draw, form: str, *shape: int) -> Any:
    return draw.normal(*shape, scale=shape[-1] ** -0.5) if form == "plain" else draw.packed(form, *shape)


def cost(site: Site) -> Cost:
    touched = site.E * (1 - (1 - site.K / site.E) ** site.T)
    return Cost(flops=6 * site.T * site.K * site.D * site.F, bytes=2 * (3 * touched * site.D * site.F + 2 * site.T * site.D))


OP = Op(
    name="experts", reference=experts, inputs={"x": "TD", "weights": "TK", "experts": "TK", "gate": "EFD", "up": "EFD", "down": "EDF"},
    outputs={"y": "TD"}, layer="domain", budget=Budget(rounds=6, accumulations=64, special=8), cost=cost,
    cases=cases(
        make, T=(1, 63), D=(60, 128), F=(36, 100), K=(1, 3), variant=("plain", "ungated", "biases", "identities", "scale_input"),
    )
    | cases(make, T=(1, 63), D=(60, 128), F=(100,), K=(2,), variant=("biases",), form=PACKED)
    | cases(make, T=(7,), D=(60,), F=(36,), K=(3,), variant=("plain", "identities", "scale_input"), form=("mxfp4",)),
)  # fmt: skip
