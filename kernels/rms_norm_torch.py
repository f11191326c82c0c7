"""RMS norm by torch's own operator."""

from typing import Any

from day0.spec.lazy import functional
from day0.spec.ops import Impl, Site


def launch(x: Any, weight_D: Any, eps: float, plus_one: bool = False) -> Any:
    return functional.rms_norm(x, x.shape[-1:], weight_D, eps)


def refuses(site: Site, machine: Any) -> str | None:
    return "weights stored as their difference from one" if site.options.get("plus_one") else None


IMPL = Impl(op="rms_norm", provider="torch", fn=launch, refuses=refuses, status="native")
