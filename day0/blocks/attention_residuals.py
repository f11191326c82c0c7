"""Attention Residuals: the stream is [T, S, D], the starts of the S - 1 blocks so far and then the sum since the last one began."""

from typing import Any

import torch
from torch import Tensor

from day0.parts.attention_residuals import AttentionResiduals
from day0.spec.block import ResidualBlock


def start(x_TD: Tensor, p: AttentionResiduals) -> Tensor:
    return x_TD[:, None]


def before(stream_TSD: Tensor, place: str, p: AttentionResiduals, w: Any, ops: Any) -> Tensor:
    return ops.rms_norm(mix(stream_TSD, place, p, w, ops), getattr(w, f"{place}_norm"), p.norm.eps, p.norm.plus_one)


def mix(stream_TSD: Tensor, place: str, p: AttentionResiduals, w: Any, ops: Any) -> Tensor:
    """→ [T, D]."""
    if place not in p.mixes:
        return stream_TSD[:, -1]
    return ops.attention_residual(stream_TSD, getattr(w, f"{place}_mix_norm"), getattr(w, f"{place}_mix_query"), p.norm.eps)


def after(stream_TSD: Tensor, y_TD: Tensor, place: str, p: AttentionResiduals, w: Any, ops: Any) -> Tensor:
    """Where a block begins, the sum so far becomes its start, and the mixer's result the new sum."""
    if place == "mixer" and p.place != "inside":
        return torch.cat((stream_TSD, y_TD[:, None]), dim=1)
    return torch.cat((stream_TSD[:, :-1], stream_TSD[:, -1:] + y_TD[:, None]), dim=1)


def close(stream_TSD: Tensor, p: AttentionResiduals, w: Any, ops: Any) -> Tensor:
    return ops.attention_residual(stream_TSD, w.end_mix_norm, w.end_mix_query, p.norm.eps)


BLOCK = ResidualBlock(open=start, before=before, after=after, close=close)
