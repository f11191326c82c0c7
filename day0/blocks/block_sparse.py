"""Grouped-query attention to the blocks that an indexer picks for each key head."""

from typing import Any

import torch
from torch import Tensor

from day0.blocks import gqa
from day0.parts.block_sparse import BlockSparse
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: BlockSparse, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases."""
    chosen_TNK = choose(x_TD, m, w, state, segment, ops)
    a = m.attention
    qk, v_TNV = gqa.project(x_TD, a, w, ops)
    if m.rope:
        qk = ops.rotary(qk, segment.rotary[m.rope], m.rope.interleaved)
    q_THQ, k_TNQ = qk.split((a.heads, a.kv_heads), dim=1)
    state.append("k", k_TNQ, segment)
    state.append("v", v_TNV, segment)
    o_THV = ops.block_sparse_attention(q_THQ, state.pages("k"), state.pages("v"), segment, chosen_TNK, m.block, a.scale)
    return ops.linear(o_THV.flatten(1), w.o, w.o_bias if a.out_bias else None)


def choose(x_TD: Tensor, m: BlockSparse, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Blocks for each query and key head [T, N, K]; writes the indexer's keys to the state."""
    eps, plus_one = m.index_norm.eps, m.index_norm.plus_one
    q, k = ops.linear(x_TD, w.index).split(tuple(m.index_widths.values()), dim=-1)
    q_TNQ = ops.rms_norm(q.unflatten(-1, (m.attention.kv_heads, m.index_dim)), w.index_q_norm, eps, plus_one)
    qk = torch.cat((q_TNQ, ops.rms_norm(k, w.index_k_norm, eps, plus_one)[:, None]), dim=1)
    if m.rope:
        qk = ops.rotary(qk, segment.rotary[m.rope], m.rope.interleaved)
    state.append("index_k", qk[:, -1], segment)
    return ops.choose_blocks(qk[:, :-1], state.pages("index_k"), segment, m.block, m.top_k, m.local)


BLOCK = MixerBlock(prefill=run, decode=run)
