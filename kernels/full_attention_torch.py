"""Attention without a mask by torch's scaled dot product attention."""

from typing import Any

from day0.spec.lazy import functional
from day0.spec.ops import Impl, Site


def launch(q_THQ: Any, k_THQ: Any, v_THQ: Any, scale: float) -> Any:
    q, k, v = (x.transpose(0, 1)[None] for x in (q_THQ, k_THQ, v_THQ))
    return functional.scaled_dot_product_attention(q, k, v, scale=scale)[0].transpose(0, 1)


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="full_attention", provider="torch", fn=launch, refuses=refuses, status="native")
