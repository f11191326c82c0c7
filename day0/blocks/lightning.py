"""Lightning attention: one matrix a head."""

from typing import Any

from torch import Tensor

from day0.parts.lightning import Lightning
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Lightning, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases. Queries, keys and values lie head by head."""
    qkv, gate = ops.linear(x_TD, w.inputs).split((3 * m.width, m.width), dim=-1)
    q_THQ, k_THQ, v_THV = ops.activation(qkv, m.activation).unflatten(-1, (m.heads, 3 * m.head_dim)).chunk(3, dim=-1)
    o_THV, memory = ops.lightning_attention(q_THQ, k_THQ, v_THV, m.slopes, state.read("memory", segment), segment.queries)
    state.write("memory", memory, segment)
    o_TV = ops.gated_rms_norm(o_THV.flatten(1)[:, None], gate[:, None], w.o_norm, m.norm.eps, "sigmoid")[:, 0]
    return ops.linear(o_TV, w.o)


BLOCK = MixerBlock(prefill=run, decode=run)
