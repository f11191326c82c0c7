"""RMS norm by torch's own operator; for many rows on a CPU by a row's length, which takes fewer passes over them (`bench/rms_norm.py`)."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site

MANY = 1 << 16  # elements from which passes cost more than calls


def launch(x: Any, weight_D: Any, eps: float, plus_one: bool = False) -> Any:
    if not x.is_cpu or x.numel() < MANY or x.dtype == torch.float64:
        return functional.rms_norm(x, x.shape[-1:], weight_D, eps)
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    y = x * length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return (y if weight_D is None else y.mul_(weight_D)).to(x.dtype)


def refuses(site: Site, machine: Any) -> str | None:
    return "weights stored as their difference from one" if site.options.get("plus_one") else None


IMPL = Impl(op="rms_norm", provider="torch", fn=launch, refuses=refuses, status="native")
