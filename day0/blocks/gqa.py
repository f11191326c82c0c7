"""Grouped-query attention over paged keys and values."""

from typing import Any

from torch import Tensor

from day0.parts.gqa import Gqa
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Gqa, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases: what differs is the kernel that `paged_attention` is bound to."""
    q_THQ, k_TNQ, v_TNV = project(x_TD, m, w, ops)
    if m.rope:
        cos_TR, sin_TR = segment.rotary[m.rope]
        q_THQ = ops.rotary(q_THQ, cos_TR, sin_TR, m.rope.interleaved)
        k_TNQ = ops.rotary(k_TNQ, cos_TR, sin_TR, m.rope.interleaved)
    state.append("k", k_TNQ, segment)
    state.append("v", v_TNV, segment)
    o_THV = ops.paged_attention(q_THQ, state.pages("k"), state.pages("v"), segment, m.scale)
    return ops.linear(o_THV.flatten(1), w.o, w.o_bias if m.out_bias else None)


def project(x_TD: Tensor, m: Gqa, w: Any, ops: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values by head, clipped and normed but not rotated."""
    biases = (w.q_bias, w.k_bias, w.v_bias) if m.bias else (None, None, None)
    q, k, v = (ops.linear(x_TD, weight, bias) for weight, bias in zip((w.q, w.k, w.v), biases, strict=True))
    if m.qk_norm and m.qk_norm_scope == "vector":
        q, k = norm_qk(q, k, m, w, ops)
    if m.clip is not None:
        q, k, v = (x.clamp(-m.clip, m.clip) for x in (q, k, v))
    q_THQ, k_TNQ = q.unflatten(-1, (m.heads, m.qk_dim)), k.unflatten(-1, (m.kv_heads, m.qk_dim))
    if m.qk_norm and m.qk_norm_scope == "head":
        q_THQ, k_TNQ = norm_qk(q_THQ, k_TNQ, m, w, ops)
    return q_THQ, k_TNQ, v.unflatten(-1, (m.kv_heads, m.v_dim))


def norm_qk(q: Tensor, k: Tensor, m: Gqa, w: Any, ops: Any) -> tuple[Tensor, Tensor]:
    """Norm over the last axis of each."""
    assert m.qk_norm
    eps, plus_one = m.qk_norm.eps, m.qk_norm.plus_one
    return ops.rms_norm(q, w.q_norm, eps, plus_one), ops.rms_norm(k, w.k_norm, eps, plus_one)


BLOCK = MixerBlock(prefill=run, decode=run)
