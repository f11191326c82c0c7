"""Experts one after the other, each over all of its tokens: every chosen expert's weights are read once a step."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site

ACTIVATIONS = {"silu": "silu", "gelu": "gelu"}


def launch(x_TD: Any, weights_TK: Any, experts_TK: Any, gate_EFD: Any, up_EFD: Any, down_EDF: Any, activation: str) -> Any:
    chosen, K = experts_TK.flatten(), experts_TK.shape[1]
    order = chosen.argsort(stable=True)
    tokens = order // K
    counts = chosen.bincount().tolist()
    activate = getattr(functional, ACTIVATIONS[activation])
    y_TD = torch.zeros(x_TD.shape, dtype=torch.float32, device=x_TD.device)
    weights = weights_TK.flatten()[order, None]
    start = 0
    for e, count in enumerate(counts):
        if not count:
            continue
        rows = tokens[start : start + count]
        x = x_TD[rows]
        hidden = activate(functional.linear(x, gate_EFD[e])).mul_(functional.linear(x, up_EFD[e]))
        y_TD.index_add_(0, rows, functional.linear(hidden, down_EDF[e]) * weights[start : start + count])
        start += count
    return y_TD.to(x_TD.dtype)


def refuses(site: Site, machine: Any) -> str | None:
    if site.dtype == "float64":
        return "sums in float32"
    if site.options.get("activation") not in ACTIVATIONS:
        return f"no activation {site.options.get('activation')!r}"
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="experts", provider="torch", fn=launch, refuses=refuses, status="composite")
