"""Kimi Delta Attention: carried inputs of the convolutions, and one matrix a head."""

from typing import Any

from torch import Tensor

from day0.parts.kda import Kda
from day0.spec.block import MixerBlock
from day0.spec.lazy import wide
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Kda, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases: sequences of any number of new tokens, one included."""
    qkv, f_a, beta_TH, gate = ops.linear(x_TD, w.inputs).split((3 * m.width, *tuple(m.inputs.values())[3:]), dim=-1)
    qkv, carried = ops.short_convolution(qkv, w.conv.joined, state.read("conv", segment), segment.queries)
    state.write("conv", carried, segment)
    q_THQ, k_THQ, v_THV = qkv.unflatten(-1, (3, m.heads, m.head_dim)).unbind(1)
    decay_THQ = ops.log_decay(heads(ops.linear(f_a, w.f_b), m), w.rate_log, w.decay_bias.view(m.heads, m.head_dim), m.floor)
    beta_TH = wide(beta_TH).sigmoid()
    o_THV, memory = ops.delta_rule(q_THQ, k_THQ, v_THV, decay_THQ, beta_TH, state.read("memory", segment), segment.queries)
    state.write("memory", memory, segment)
    gate = gate if m.gate_rank is None else ops.linear(gate, w.g_b)
    return ops.linear(ops.gated_rms_norm(o_THV, heads(gate, m), w.o_norm, m.norm.eps, "sigmoid").flatten(1), w.o)


def heads(x: Tensor, m: Kda) -> Tensor:
    return x.unflatten(-1, (m.heads, m.head_dim))


BLOCK = MixerBlock(prefill=run, decode=run)
