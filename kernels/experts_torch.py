"""Experts one after the other, each over all of its tokens: every chosen expert's weights are read once a step."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site


def launch(
    x_TD: Any, weights_TK: Any, experts_TK: Any, gate_EFD: Any, up_EFD: Any, down_EDF: Any, activation: Any,
    biases: Any = None, identity_from: int | None = None, scale_input: bool = False,
) -> Any:  # fmt: skip
    chosen, K = experts_TK.flatten(), experts_TK.shape[1]
    order = chosen.argsort(stable=True)
    tokens = order // K
    weights = weights_TK.flatten()[order, None]
    y_TD = torch.zeros(x_TD.shape, dtype=torch.float32, device=x_TD.device)
    start = 0
    for e, count in enumerate(chosen.bincount().tolist()):
        if not count:
            continue
        rows, weight = tokens[start : start + count], weights[start : start + count]
        x = x_TD[rows]
        if identity_from is None or e < identity_from:
            x = _expert(x, gate_EFD[e], up_EFD[e], down_EDF[e])
        y_TD.index_add_(0, rows, x * weight)
        start += count
    return y_TD.to(x_TD.dtype)


def _expert(x_TD: Any, gate_FD: Any, up_FD: Any, down_DF: Any) -> Any:
    hidden_TF = functional.silu(functional.linear(x_TD, gate_FD)).mul_(functional.linear(x_TD, up_FD))
    return functional.linear(hidden_TF, down_DF)


def refuses(site: Site, machine: Any) -> str | None:
    if site.dtype == "float64":
        return "sums in float32"
    activation = site.options["activation"]
    if activation.kind != "silu" or not activation.plain:
        return "knows silu with a gate, without clamps or offsets"
    if site.options.get("biases") or site.options.get("scale_input"):
        return "knows neither biases nor scaled inputs"
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="experts", provider="torch", fn=launch, refuses=refuses, status="composite")
