"""Linear map whose weights are read as they lie packed; several matrices of one input one after the other."""

from typing import Any

from day0.kernels.c.build import lacking
from day0.kernels.c.weights import readable, times
from day0.kernels.c.worth import too_small
from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(x_TI: Any, weight_OI: Any, bias_O: Any = None) -> Any:
    x = x_TI.float()
    members = list(weight_OI) if hasattr(weight_OI, "members") or isinstance(weight_OI, tuple) else [weight_OI]
    products = [times(x, member) for member in members]
    y_TO = products[0] if len(products) == 1 else torch.cat(products, dim=-1)
    if bias_O is not None:
        y_TO = y_TO + (bias_O if isinstance(bias_O, torch.Tensor) else torch.cat(list(bias_O)))
    return y_TO.to(x_TI.dtype)


def refuses(site: Site, machine: Any) -> str | None:
    if not readable(site.format):
        return f"reads packed weights, not {site.format}"
    if site.dtype == "float64":
        return "sums in float32"
    return too_small(site) or lacking(machine)


IMPL = Impl(op="linear", provider="c", fn=launch, refuses=refuses, status="native")
