"""Several linear maps as one call where their weights lie side by side, else one after the other."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site


def launch(x_TI: Any, weights: Any, biases: Any = None) -> Any:
    joined = getattr(weights, "joined", None)
    offset = getattr(biases, "joined", None)
    if joined is not None and (biases is None or offset is not None):
        if x_TI.shape[0] == 1 and x_TI.dtype == torch.bfloat16 and x_TI.is_cpu:
            return (torch.mv(joined, x_TI[0]) if biases is None else torch.addmv(offset, joined, x_TI[0]))[None]
        return functional.linear(x_TI, joined, offset)
    offsets = [None] * len(tuple(weights)) if biases is None else biases
    return torch.cat([functional.linear(x_TI, weight, bias) for weight, bias in zip(weights, offsets, strict=True)], dim=-1)


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="linears", provider="torch", fn=launch, refuses=refuses, status="fused")
