"""Residual stream with a norm before each sublayer."""

from typing import Any

from torch import Tensor

from day0.parts.pre_norm import PreNorm
from day0.spec.block import ResidualBlock
from day0.spec.model import Norm


def start(x_TD: Tensor, p: PreNorm) -> Tensor:
    return x_TD


def before(x_TD: Tensor, place: str, p: PreNorm, w: Any, ops: Any) -> Tensor:
    return normed(x_TD, p.norm, w, "norm" if p.single else f"{place}_norm", ops)


def normed(x: Tensor, norm: Norm, w: Any, name: str, ops: Any) -> Tensor:
    """The last axis of `x`, normed with the weight `name`."""
    if norm.kind == "layer":
        return ops.layer_norm(x, getattr(w, name), getattr(w, f"{name}_bias"), norm.eps)
    return ops.rms_norm(x, getattr(w, name), norm.eps, norm.plus_one)


def after(x_TD: Tensor, y_TD: Tensor, place: str, p: PreNorm, w: Any, ops: Any) -> Tensor:
    return x_TD + (y_TD * getattr(w, f"{place}_scale") if p.scaled else y_TD)


def close(x_TD: Tensor, p: PreNorm, w: Any, ops: Any) -> Tensor:
    return x_TD


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
