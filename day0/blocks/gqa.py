"""Grouped-query attention over paged keys and values."""

from typing import Any

import torch
from torch import Tensor

from day0.parts.gqa import Gqa
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Gqa, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases: what differs is the kernel that `paged_attention` is bound to."""
    qk, v = project(x_TD, m, w, ops)
    if m.rope:
        qk = ops.rotary(qk, segment.rotary[m.rope], m.rope.interleaved)
    q_THQ, k_TNQ = qk.split((m.heads, m.kv_heads), dim=1)
    state.append("k", k_TNQ, segment)
    state.append("v", v, segment)
    o_THV = ops.paged_attention(q_THQ, state.pages("k"), state.pages("v"), segment, m.scale)
    return ops.linear(o_THV.flatten(1), w.o, w.o_bias if m.out_bias else None)


def project(x_TD: Tensor, m: Gqa, w: Any, ops: Any) -> tuple[Tensor, Tensor]:
    """Queries then keys [T, H + N, Q] and values [T, N, V]: clipped and normed but not rotated."""
    joined = ops.linear(x_TD, w.qkv, w.qkv_bias if m.bias else None)
    if m.clip is not None and not m.qk_norm:
        joined = joined.clamp(-m.clip, m.clip)
    qk, v = joined.split((m.widths["q"] + m.widths["k"], m.widths["v"]), dim=-1)
    if m.qk_norm:
        qk = norm_qk(qk, m, w, ops)
        if m.clip is not None:
            qk, v = qk.clamp(-m.clip, m.clip), v.clamp(-m.clip, m.clip)
    return qk.unflatten(-1, (m.heads + m.kv_heads, m.qk_dim)), v.unflatten(-1, (m.kv_heads, m.v_dim))


def norm_qk(qk: Tensor, m: Gqa, w: Any, ops: Any) -> Tensor:
    """Queries and keys, each normed over its heads or over the whole vector."""
    assert m.qk_norm
    eps, plus_one = m.qk_norm.eps, m.qk_norm.plus_one
    q, k = qk.split((m.widths["q"], m.widths["k"]), dim=-1)
    if m.qk_norm_scope == "head":
        q, k = q.unflatten(-1, (m.heads, m.qk_dim)), k.unflatten(-1, (m.kv_heads, m.qk_dim))
    normed = (ops.rms_norm(q, w.q_norm, eps, plus_one), ops.rms_norm(k, w.k_norm, eps, plus_one))
    return torch.cat([x.flatten(1) for x in normed], dim=-1)


BLOCK = MixerBlock(prefill=run, decode=run)
