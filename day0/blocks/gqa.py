"""Grouped-query attention over paged keys and values."""

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from day0.parts.gqa import Gqa, Temperature
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Gqa, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases: what differs is the kernel that `paged_attention` is bound to."""
    qk, v = project(x_TD, m, w, ops)
    if m.rope:
        qk = ops.rotary(qk, segment.rotary[m.rope], m.rope.interleaved)
    if m.unit_eps is not None:
        qk = ops.rms_norm(qk, None, m.unit_eps)
    q_THQ, k_TNQ = qk.split((m.heads, m.kv_heads), dim=1)
    if m.temperature:
        q_THQ = (q_THQ * factors(m.temperature, segment)).to(q_THQ.dtype)
    state.append("k", k_TNQ, segment)
    state.append("v", v if m.value_scale == 1 else v * m.value_scale, segment)
    sinks_H = w.sinks if m.sinks else None
    o_THV = ops.paged_attention(q_THQ, state.pages("k"), state.pages("v"), segment, m.scale, sinks_H, m.window, m.chunked)
    if m.gate:
        gate = ops.linear(x_TD, w.gate)
        gate = gate.sigmoid() if m.gate_function == "sigmoid" else functional.softplus(gate)
        o_THV = o_THV * gate.unflatten(-1, (m.heads, -1))
    return ops.linear(o_THV.flatten(1), w.o, w.o_bias if m.out_bias else None)


def factors(temperature: Temperature, segment: Segment) -> Tensor:
    """[T, 1, 1], float32; made once a step."""
    key = ("temperature", temperature)
    if key not in segment.shared:
        steps_T = ((segment.positions_T + 1) // temperature.floor).float()
        segment.shared[key] = (1 + temperature.scale * torch.log1p(steps_T))[:, None, None]
    return segment.shared[key]


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
