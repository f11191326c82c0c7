"""Several residual streams [T, M, D] around each sublayer, weighed channel by channel."""

from typing import Any

from torch import Tensor

from day0.parts.gated_residual import GatedResidual
from day0.spec.block import ResidualBlock


def start(x_TD: Tensor, p: GatedResidual) -> Tensor:
    """Every stream starts as the embedding."""
    return x_TD[:, None].expand(-1, p.streams, -1)


def before(streams_TMD: Tensor, place: str, p: GatedResidual, w: Any, ops: Any) -> Tensor:
    norm, down, up = (getattr(w, f"{place}_{name}") for name in ("norm", "down", "up"))
    return ops.hyper_mix(streams_TMD, norm, down, up, p.eps)


def after(streams_TMD: Tensor, y_TD: Tensor, place: str, p: GatedResidual, w: Any, ops: Any) -> Tensor:
    return ops.hyper_inject(streams_TMD, y_TD, getattr(w, f"{place}_norm"), getattr(w, f"{place}_inject"), p.eps)


def close(streams_TMD: Tensor, p: GatedResidual, w: Any, ops: Any) -> Tensor:
    return ops.hyper_mix(streams_TMD, w.norm, w.down, w.up, p.eps)


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
