"""Gated DeltaNet: carried inputs of the convolution, and one matrix a value head."""

from typing import Any

import torch
from torch import Tensor

from day0.parts.gdn import Gdn
from day0.spec.block import MixerBlock
from day0.spec.lazy import wide
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Gdn, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases: sequences of any number of new tokens, one included."""
    qkv, z_TNV, beta_TN, decay_TN = project(x_TD, m, w, ops)
    qkv, carried = ops.short_convolution(qkv, w.conv.flatten(1), state.read("conv", segment), segment.queries)
    state.write("conv", carried, segment)
    q, k, v = qkv.split((m.widths["q"], m.widths["k"], m.widths["v"]), dim=-1)
    q_THQ, k_THQ = q.unflatten(-1, (m.key_heads, m.key_dim)), k.unflatten(-1, (m.key_heads, m.key_dim))
    v_TNV = v.unflatten(-1, (m.value_heads, m.value_dim))
    decay_TNQ = ops.log_decay(decay_TN[..., None], w.rate_log, w.decay_bias[:, None])
    beta_TN = wide(beta_TN).sigmoid()
    o_TNV, memory = ops.delta_rule(q_THQ, k_THQ, v_TNV, decay_TNQ, beta_TN, state.read("memory", segment), segment.queries)
    state.write("memory", memory, segment)
    return ops.linear(ops.gated_rms_norm(o_TNV, z_TNV, w.o_norm, m.norm.eps, m.gate).flatten(1), w.o)


def project(x_TD: Tensor, m: Gdn, w: Any, ops: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys and values side by side, the gate [T, N, V], and what becomes beta and decay [T, N]."""
    parts = ops.linear(x_TD, w.inputs).split(tuple(m.inputs.values()), dim=-1)
    if not m.grouped:
        qkv, z, beta_TN, decay_TN = parts
        return qkv, z.unflatten(-1, (m.value_heads, m.value_dim)), beta_TN, decay_TN
    H, share = m.key_heads, m.value_heads // m.key_heads
    own = (m.key_dim, m.key_dim, share * m.value_dim, share * m.value_dim)
    q, k, v, z = parts[0].unflatten(-1, (H, sum(own))).split(own, dim=-1)
    beta_TN, decay_TN = (y.flatten(1) for y in parts[1].unflatten(-1, (H, 2 * share)).chunk(2, dim=-1))
    qkv = torch.cat([y.flatten(1) for y in (q, k, v)], dim=-1)
    return qkv, z.reshape(-1, m.value_heads, m.value_dim), beta_TN, decay_TN


BLOCK = MixerBlock(prefill=run, decode=run)
