"""Several residual streams [T, M, D] around each sublayer."""

from typing import Any

from torch import Tensor

from day0.parts.hyper_connection import HyperConnection
from day0.spec.block import ResidualBlock
from day0.spec.lazy import wide


def start(x_TD: Tensor, p: HyperConnection) -> Tensor:
    """Every stream starts as the embedding."""
    return x_TD[:, None].expand(-1, p.streams, -1)


def before(streams_TMD: Tensor, place: str, p: HyperConnection, w: Any, ops: Any) -> Tensor:
    mix, base, scale = mixer(place, w)
    M = p.streams
    x_TD = ops.hyper_collapse(streams_TMD, mix[:M], base[:M], scale[:1], p.floor, p.norm.eps)
    return ops.rms_norm(x_TD, getattr(w, f"{place}_norm"), p.norm.eps, p.norm.plus_one)


def after(streams_TMD: Tensor, y_TD: Tensor, place: str, p: HyperConnection, w: Any, ops: Any) -> Tensor:
    mix, base, scale = mixer(place, w)
    M = p.streams
    return ops.hyper_expand(streams_TMD, y_TD, mix[M:], base[M:], scale[1:], p.iterations, p.floor, p.norm.eps)


def close(streams_TMD: Tensor, p: HyperConnection, w: Any, ops: Any) -> Tensor:
    """The model's head sums the streams where it has one; their mean without."""
    if w is None:
        return wide(streams_TMD).mean(1).to(streams_TMD.dtype)
    return ops.hyper_collapse(streams_TMD, w.mix, w.base, w.scale, p.floor, p.norm.eps)


def mixer(place: str, w: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of the mixer of one sublayer: rows into it first, then rows out of it, then rows between streams."""
    return getattr(w, f"{place}_mix"), getattr(w, f"{place}_base"), getattr(w, f"{place}_scale")


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
