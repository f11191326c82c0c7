"""Activations of feed-forward networks on tiles in float32, with the clamps and offsets of releases (`day0.spec.activation`)."""

from __future__ import annotations

from typing import Any

from day0.spec.lazy import tl, triton


def constants(activation: Any) -> tuple[Any, ...]:
    """CHOSEN of the functions below."""
    a = activation
    return a.kind, a.limit, a.limit_after, a.alpha, a.offset, a.beta, a.linear_beta


@triton.jit
def gated(gate, up, CHOSEN: tl.constexpr):
    """activation(gate) · (up + offset)."""
    LIMIT: tl.constexpr = CHOSEN[1]
    LIMIT_AFTER: tl.constexpr = CHOSEN[2]
    if CHOSEN[0] == "situ":
        up = CHOSEN[6] * tanh(up / CHOSEN[6])
    if LIMIT is not None:
        up = tl.clamp(up, -LIMIT, LIMIT, tl.PropagateNan.ALL)
        if not LIMIT_AFTER:
            gate = tl.minimum(gate, LIMIT, tl.PropagateNan.ALL)
    value = activated(gate, CHOSEN)
    if LIMIT is not None and LIMIT_AFTER:
        value = tl.minimum(value, LIMIT, tl.PropagateNan.ALL)
    return value * (up + CHOSEN[4])


@triton.jit
def activated(x, CHOSEN: tl.constexpr):
    """The function of one argument."""
    KIND: tl.constexpr = CHOSEN[0]
    if KIND == "silu":
        value = x * tl.sigmoid(CHOSEN[3] * x)
    elif KIND == "relu2":
        positive = tl.maximum(x, 0.0, tl.PropagateNan.ALL)
        value = positive * positive
    elif KIND == "situ":
        value = CHOSEN[5] * tanh(x / CHOSEN[5]) * tl.sigmoid(x)
    elif KIND == "gelu_tanh":
        value = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    else:
        value = 0.5 * x * (1 + tl.erf(0.7071067811865476 * x))
    return value


@triton.jit
def tanh(x):
    """Of |x| > 44 exactly ±1; no power overflows."""
    small = tl.exp(-2 * tl.abs(x))
    value = (1 - small) / (1 + small)
    return tl.where(x < 0, -value, value)
