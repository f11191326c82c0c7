"""Experts one after the other, their weights read as they lie packed: nothing is decoded into memory for a few tokens."""

from typing import Any

from day0.kernels.c.build import lacking
from day0.kernels.c.weights import readable, times
from day0.kernels.c.worth import too_small
from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(
    x_TD: Any, weights_TK: Any, experts_TK: Any, gate_EFD: Any, up_EFD: Any, down_EDF: Any, activation: Any,
    biases: Any = None, identity_from: int | None = None, scale_input: bool = False,
) -> Any:  # fmt: skip
    chosen, K = experts_TK.flatten(), experts_TK.shape[1]
    order = chosen.argsort(stable=True)
    tokens, weights = order // K, weights_TK.flatten()[order, None].float()
    wide_TD, y_TD = x_TD.float(), torch.zeros(x_TD.shape, dtype=torch.float32)
    start = 0
    for e, count in enumerate(chosen.bincount().tolist()):
        if not count:
            continue
        rows, weight = tokens[start : start + count], weights[start : start + count]
        x = wide_TD[rows] * weight if scale_input else wide_TD[rows]
        if identity_from is None or e < identity_from:
            gate, up, down = (_expert(bank, e) for bank in (gate_EFD, up_EFD, down_EDF))
            gate_F, up_F, down_D = biases or (None, None, None)
            hidden = _activated(_biased(times(x, gate), gate_F, e), _biased(times(x, up), up_F, e), activation)
            x = _biased(times(hidden, down), down_D, e)
        y_TD.index_add_(0, rows, x if scale_input else x * weight)
        start += count
    return y_TD.to(x_TD.dtype)


def _expert(bank: Any, e: int) -> Any:
    return bank[e] if isinstance(bank, torch.Tensor) else bank.expert(e)


def _biased(y_TO: Any, bias_EO: Any, e: int) -> Any:
    return y_TO if bias_EO is None else y_TO.add_(bias_EO[e])


def _activated(gate_TF: Any, up_TF: Any, activation: Any) -> Any:
    """silu with the clamps and offsets of releases."""
    limit = activation.limit
    if limit is not None:
        up_TF = up_TF.clamp_(-limit, limit)
        gate_TF = gate_TF if activation.limit_after else gate_TF.clamp_(max=limit)
    activated = torch.sigmoid(gate_TF if activation.alpha == 1 else gate_TF * activation.alpha).mul_(gate_TF)
    if activation.limit_after and limit is not None:
        activated = activated.clamp_(max=limit)
    return activated.mul_(up_TF if activation.offset == 0 else up_TF.add_(activation.offset))


def refuses(site: Site, machine: Any) -> str | None:
    if not readable(site.format):
        return f"reads packed weights, not {site.format}"
    if site.dtype == "float64":
        return "sums in float32"
    activation = site.options["activation"]
    if activation.kind != "silu" or not activation.gated:
        return "knows silu with a gate"
    return too_small(site) or lacking(machine)


IMPL = Impl(op="experts", provider="c", fn=launch, refuses=refuses, status="native")
