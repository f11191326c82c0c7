"""Gated grouped-query attention to the tokens of chosen blocks."""

from typing import Any

import torch
from torch import Tensor

from day0.blocks import gated_attention
from day0.blocks.compressed_attention import complete, entry_turn
from day0.parts.qsa import Qsa
from day0.spec.block import MixerBlock
from day0.spec.lazy import wide
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Qsa, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases."""
    chosen_TK = with_tail(choose(x_TD, m, w, state, segment, ops), m.block, segment)
    chosen_TNK = chosen_TK[:, None].expand(-1, m.attention.kv_heads, -1)

    def attend(q_THQ: Tensor) -> Tensor:
        return ops.block_sparse_attention(q_THQ, state.pages("k"), state.pages("v"), segment, chosen_TNK, 1, m.attention.scale)

    return gated_attention.attended(x_TD, m.attention, w, state, segment, ops, attend)


def choose(x_TD: Tensor, m: Qsa, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Blocks for each query [T, K]; writes the keys of the blocks that the new tokens complete to the state."""
    q, k_TQ = ops.linear(x_TD, w.index_qk).split((m.index_heads * m.index_dim, m.index_dim), dim=-1)
    eps, plus_one = m.index_norm.eps, m.index_norm.plus_one
    q_THQ = ops.rms_norm(q.unflatten(-1, (m.index_heads, m.index_dim)), w.index_q_norm, eps, plus_one)
    means_NQ = wide(complete(k_TQ, "index_tail", m.block, 0, state, segment)).mean(1).to(k_TQ.dtype)
    keys_NQ = ops.rms_norm(means_NQ, w.index_k_norm, eps, plus_one)
    if m.rope:
        q_THQ = ops.rotary(q_THQ, segment.rotary[m.rope], m.rope.interleaved)
        keys_NQ = ops.rotary(keys_NQ[:, None], entry_turn(m.rope, m.block, segment), m.rope.interleaved)[:, 0]
    state.append("index", keys_NQ, segment)
    weights_TH = q_THQ.new_ones(q_THQ.shape[:2])
    return ops.choose_entries(q_THQ, weights_TH, state.pages("index"), segment, m.block, m.top_k, m.index_dim**-0.5)


def with_tail(blocks_TK: Tensor, block: int, segment: Segment) -> Tensor:
    """Positions of the tokens of the chosen blocks, and of those after the last whole block that a query sees; -1 for none."""
    place_P = torch.arange(block, device=blocks_TK.device)
    chosen_TKP = (blocks_TK[..., None] * block + place_P).masked_fill(blocks_TK[..., None] < 0, -1)
    at_T1 = segment.positions_T[:, None]
    tail_TP = (at_T1 + 1) // block * block + place_P[:-1]
    return torch.cat((chosen_TKP.flatten(1), tail_TP.masked_fill(tail_TP > at_T1, -1)), dim=-1)


BLOCK = MixerBlock(prefill=run, decode=run)
