"""Pre-norm stream [T, 2, D]: what goes on, and what waits to be added at the end of the next layer."""

from typing import Any

import torch
from torch import Tensor

from day0.parts.shortcut import Shortcut
from day0.spec.block import ResidualBlock


def start(x_TD: Tensor, p: Shortcut) -> Tensor:
    return torch.stack((x_TD, torch.zeros_like(x_TD)), dim=1)


def before(stream: Tensor, place: str, p: Shortcut, w: Any, ops: Any) -> Tensor:
    return ops.rms_norm(stream[:, 0], getattr(w, f"{place}_norm"), p.norm.eps, p.norm.plus_one)


def after(stream: Tensor, y: Tensor, place: str, p: Shortcut, w: Any, ops: Any) -> Tensor:
    """`y` is [T, D], or [T, 2, D] where a part of it waits."""
    if y.dim() == stream.dim():
        return stream + y
    x_TD, waiting_TD = stream[:, 0] + y, stream[:, 1]
    if p.lands and place == "ffn":
        return start(x_TD + waiting_TD, p)
    return torch.stack((x_TD, waiting_TD), dim=1)


def close(stream: Tensor, p: Shortcut, w: Any, ops: Any) -> Tensor:
    return stream[:, 0]


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
