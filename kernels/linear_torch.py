"""Linear map by torch's own operators: a matrix product, or a matrix-vector product for one bfloat16 row, which CPUs run faster."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site


def launch(x_TI: Any, weight_OI: Any, bias_O: Any = None) -> Any:
    if x_TI.shape[0] == 1 and x_TI.dtype == torch.bfloat16 and x_TI.is_cpu:
        y_O = torch.mv(weight_OI, x_TI[0]) if bias_O is None else torch.addmv(bias_O, weight_OI, x_TI[0])
        return y_O[None]
    return functional.linear(x_TI, weight_OI, bias_O)


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="linear", provider="torch", fn=launch, refuses=refuses, status="native")
