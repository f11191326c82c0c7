"""Grouped-query attention over paged keys and values, its output gated."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from day0.parts.gated_attention import GatedAttention
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: GatedAttention, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases: what differs is the kernel that `paged_attention` is bound to."""
    def attend(q_THQ: Tensor) -> Tensor:
        return ops.paged_attention(q_THQ, state.pages("k"), state.pages("v"), segment, m.scale)

    return attended(x_TD, m, w, state, segment, ops, attend)


def attended(
    x_TD: Tensor, m: GatedAttention, w: Any, state: Any, segment: Segment, ops: Any, attend: Callable[[Tensor], Tensor]
) -> Tensor:
    """Everything around the attention itself, which `attend` gives for the queries once keys and values are in the state."""
    q, k, v = ops.linear(x_TD, w.qkv, w.qkv_bias if m.bias else None).split(tuple(m.widths.values()), dim=-1)
    q_THQ, gate_THV = q.unflatten(-1, (m.heads, m.qk_dim + m.v_dim)).split((m.qk_dim, m.v_dim), dim=-1)
    k_TNQ = k.unflatten(-1, (m.kv_heads, m.qk_dim))
    if m.qk_norm:
        q_THQ = ops.rms_norm(q_THQ, w.q_norm, m.qk_norm.eps, m.qk_norm.plus_one)
        k_TNQ = ops.rms_norm(k_TNQ, w.k_norm, m.qk_norm.eps, m.qk_norm.plus_one)
    if m.rope:
        qk = ops.rotary(torch.cat((q_THQ, k_TNQ), dim=1), segment.rotary[m.rope], m.rope.interleaved)
        q_THQ, k_TNQ = qk.split((m.heads, m.kv_heads), dim=1)
    state.append("k", k_TNQ, segment)
    state.append("v", v.unflatten(-1, (m.kv_heads, m.v_dim)), segment)
    o_THV = attend(q_THQ)
    return ops.linear((o_THV * gate_THV.sigmoid()).flatten(1), w.o, w.o_bias if m.out_bias else None)


BLOCK = MixerBlock(prefill=run, decode=run)
