"""Residual stream with a norm before and one after each sublayer."""

from typing import Any

from torch import Tensor

from day0.parts.sandwich_norm import SandwichNorm
from day0.spec.block import ResidualBlock


def start(x_TD: Tensor, p: SandwichNorm) -> Tensor:
    return x_TD


def before(x_TD: Tensor, place: str, p: SandwichNorm, w: Any, ops: Any) -> Tensor:
    return ops.rms_norm(x_TD, getattr(w, f"{place}_norm"), p.norm.eps, p.norm.plus_one)


def after(x_TD: Tensor, y_TD: Tensor, place: str, p: SandwichNorm, w: Any, ops: Any) -> Tensor:
    return x_TD + ops.rms_norm(y_TD, getattr(w, f"{place}_post_norm"), p.norm.eps, p.norm.plus_one)


def close(x_TD: Tensor, p: SandwichNorm, w: Any, ops: Any) -> Tensor:
    return x_TD


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
