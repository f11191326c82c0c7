"""Activations of feed-forward networks on float32, as `day0/ops/gated_activation.py` means them. Comparisons let NaN pass."""

from __future__ import annotations

from typing import Any

from day0.spec.lazy import tl, triton


def constants(activation: Any) -> dict[str, Any]:
    """What `gated` and `activate` are compiled for."""
    return {
        "KIND": activation.kind, "ALPHA": float(activation.alpha), "BETA": float(activation.beta), "UP_BETA": float(activation.linear_beta),
        "LIMIT": activation.limit, "LIMIT_AFTER": activation.limit_after, "OFFSET": float(activation.offset),
    }  # fmt: skip


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def at_most(x, limit):
    return tl.where(x > limit, limit, x)


@triton.jit
def activate(x, KIND: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr):
    if KIND == "silu":
        y = x * tl.sigmoid(ALPHA * x)
    elif KIND == "gelu":
        y = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    elif KIND == "gelu_tanh":
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # 1 + tanh(u) is 2 sigmoid(2u)
    elif KIND == "relu2":
        y = tl.where(x < 0, 0, x * x)
    else:
        tl.static_assert(KIND == "situ")
        y = BETA * tanh(x / BETA) * tl.sigmoid(x)
    return y


@triton.jit
def gated(
    gate, up, KIND: tl.constexpr, ALPHA: tl.constexpr, BETA: tl.constexpr, UP_BETA: tl.constexpr, LIMIT: tl.constexpr,
    LIMIT_AFTER: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    if KIND == "situ":
        up = UP_BETA * tanh(up / UP_BETA)
    if LIMIT is not None:
        up = -at_most(-at_most(up, LIMIT), LIMIT)
        if not LIMIT_AFTER:
            gate = at_most(gate, LIMIT)
    y = activate(gate, KIND, ALPHA, BETA)
    if LIMIT is not None and LIMIT_AFTER:
        y = at_most(y, LIMIT)
    return y * (up + OFFSET)
