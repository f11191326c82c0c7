"""log(1 + exp(x)) on float32, to full precision where exp(x) is small, and x itself where it is large."""

from __future__ import annotations

from day0.spec.lazy import tl, triton


@triton.jit
def softplus(x):
    """log(u) · e / (u - 1), with u = 1 + e rounded, is log(1 + e) but for rounding (Goldberg, 1991, theorem 4)."""
    e = tl.exp(x)
    u = 1 + e
    y = tl.where(u == 1, e, tl.log(u) * e / (u - 1))
    return tl.where(x > 20, x, y)
