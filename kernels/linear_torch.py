"""Linear map by torch's own operator (oneDNN on CPU, cuBLAS on CUDA)."""

from typing import Any

from day0.spec.lazy import functional
from day0.spec.ops import Impl, Site


def launch(x_TI: Any, weight_OI: Any, bias_O: Any = None) -> Any:
    return functional.linear(x_TI, weight_OI, bias_O)


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="linear", provider="torch", fn=launch, refuses=refuses, status="native")
