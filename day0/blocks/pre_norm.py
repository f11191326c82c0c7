"""Residual stream with a norm before each sublayer."""

from typing import Any

from torch import Tensor

from day0.parts.pre_norm import PreNorm
from day0.spec.block import ResidualBlock


def start(x_TD: Tensor, p: PreNorm) -> Tensor:
    return x_TD


def before(x_TD: Tensor, place: str, p: PreNorm, w: Any, ops: Any) -> Tensor:
    return ops.rms_norm(x_TD, w.norm if p.single else getattr(w, f"{place}_norm"), p.norm.eps, p.norm.plus_one)


def after(x_TD: Tensor, y_TD: Tensor, place: str, p: PreNorm, w: Any, ops: Any) -> Tensor:
    return x_TD + y_TD


def close(x_TD: Tensor, p: PreNorm, w: Any, ops: Any) -> Tensor:
    return x_TD


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
