"""Residual that is taken after the norm. The stream is what the last sublayer left; its norm is taken before and after the next one."""

from typing import Any

from torch import Tensor

from day0.parts.norm_residual import NormResidual
from day0.spec.block import ResidualBlock


def start(x_TD: Tensor, p: NormResidual) -> Tensor:
    return x_TD


def before(x_TD: Tensor, place: str, p: NormResidual, w: Any, ops: Any) -> Tensor:
    return ops.rms_norm(x_TD, getattr(w, f"{place}_norm"), p.norm.eps, p.norm.plus_one)


def after(x_TD: Tensor, y_TD: Tensor, place: str, p: NormResidual, w: Any, ops: Any) -> Tensor:
    kept, added = getattr(p, place)
    return before(x_TD, place, p, w, ops) * kept + y_TD * added


def close(x_TD: Tensor, p: NormResidual, w: Any, ops: Any) -> Tensor:
    return x_TD


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
