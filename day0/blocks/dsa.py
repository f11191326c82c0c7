"""Sparse latent attention: while no sequence is longer than the tokens that a query may read, it is latent attention."""

from typing import Any

import torch
from torch import Tensor

from day0.blocks import mla
from day0.blocks.compressed_attention import complete
from day0.blocks.qsa import with_tail
from day0.parts.dsa import Dsa, Indexer
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, d: Dsa, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases; the chosen tokens are attended in latent space in either."""
    m = d.attention
    query_TC = mla.query_input(x_TD, m, w, ops)
    indices_TK = choose(x_TD, query_TC, d, w, state, segment, ops)
    q_THN, q_THR = mla.project(x_TD, query_TC, m, w, state, segment, ops)
    if indices_TK is None:
        attend = mla.attend_absorbed if segment.phase == "decode" else mla.attend_expanded
        return attend(x_TD, q_THN, q_THR, m, w, state, segment, ops)
    q_THC = ops.absorb_query(q_THN, w.kv_b, m.v_head_dim)
    o_THC = ops.sparse_latent_attention(q_THC, q_THR, state.pages("latent"), segment, indices_TK, m.scale)
    return mla.output(x_TD, ops.expand_value(o_THC, w.kv_b, m.v_head_dim), m, w, ops)


def choose(x_TD: Tensor, query_TC: Tensor, d: Dsa, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor | None:
    """Positions that each token reads, [T, K]; None where all of them are read. Layers that reuse the choice find it in the segment."""
    if d.indexer is None:
        indices_TK: Tensor | None = segment.shared["indices", state.layer.index_source]
        return indices_TK
    q_THQ = index(x_TD, query_TC, d, d.indexer, w.indexer, state, segment, ops)
    indices_TK = None
    if segment.longest > d.top_k:
        weights_TH = ops.linear(x_TD.to(w.indexer.weights.dtype), w.indexer.weights) * d.indexer.scale
        indices_TK = select(q_THQ, weights_TH, d, d.indexer, state, segment, ops)
    segment.shared["indices", state.layer.index] = indices_TK
    return indices_TK


def select(q_THQ: Tensor, weights_TH: Tensor, d: Dsa, i: Indexer, state: Any, segment: Segment, ops: Any) -> Tensor:
    """The best-scored tokens; where keys are pooled, the tokens of the best pools and those after the last whole one."""
    if i.pool == 1:
        return ops.index_select(ops.index_scores(q_THQ, weights_TH, state.pages("index_keys"), segment), d.top_k)
    pools_TK = ops.choose_entries(q_THQ, weights_TH, state.pages("index_keys"), segment, i.pool, d.top_k // i.pool, 1.0)
    return with_tail(pools_TK, i.pool, segment)


def index(x_TD: Tensor, query_TC: Tensor, d: Dsa, i: Indexer, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Queries of the indexer [T, H, Q]; writes the new tokens' keys to the state."""
    q_THQ = ops.linear(query_TC, w.q).unflatten(-1, (i.heads, i.head_dim))
    k_TQ = ops.linear(x_TD, w.k)
    if i.norm.kind == "layer":
        k_TQ = ops.layer_norm(k_TQ, w.k_norm, w.k_norm_bias, i.norm.eps)
    else:
        k_TQ = ops.rms_norm(k_TQ, w.k_norm, i.norm.eps, i.norm.plus_one)
    if d.rope:
        turn = segment.rotary[d.rope]
        q_THQ = ops.rotary(q_THQ, turn, i.interleaved)
        k_TQ = ops.rotary(k_TQ[:, None], turn, i.interleaved)[:, 0]
    if i.pool > 1:
        rows_TC = torch.cat((k_TQ, ops.linear(x_TD, w.pool_gate)), dim=-1)
        values, gates = complete(rows_TC, "index_tail", i.pool, 0, state, segment).chunk(2, dim=-1)
        k_TQ = ops.gated_pool(values, gates, w.pool_bias)
    state.append("index_keys", k_TQ, segment)
    return q_THQ


BLOCK = MixerBlock(prefill=run, decode=run)
