"""Attention of a tower over the patches of one view."""

from typing import Any

import torch
from torch import Tensor

from day0.parts.vision_attention import VisionAttention
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: VisionAttention, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """The segment is a view: its tokens are patches."""
    joined = ops.linear(x_TD, w.qkv, w.qkv_bias if m.bias else None).unflatten(-1, (3 * m.heads, m.dim))
    qk_THQ, v_THV = joined.split((2 * m.heads, m.heads), dim=1)
    if m.qk_norm:
        q_THQ, k_THQ = (
            ops.rms_norm(x, weight, m.qk_norm.eps, m.qk_norm.plus_one)
            for x, weight in zip(qk_THQ.chunk(2, dim=1), (w.q_norm, w.k_norm), strict=True)
        )
        qk_THQ = torch.cat((q_THQ, k_THQ), dim=1)
    qk_THQ = ops.rotary(qk_THQ, segment.rotary[m.rope], m.rope.interleaved)
    q_THQ, k_THQ = qk_THQ.chunk(2, dim=1)
    o_THV = ops.full_attention(q_THQ, k_THQ, v_THV, m.dim**-0.5)
    return ops.linear(o_THV.flatten(1), w.o, w.o_bias if m.bias else None)


BLOCK = MixerBlock(prefill=run, decode=run)
