"""Attention over a window and over compressed entries; both phases differ only in the kernels they are bound to."""

from typing import Any

import torch
from torch import Tensor

from day0.parts.compressed_attention import CompressedAttention
from day0.spec.block import MixerBlock
from day0.spec.rope import Rope
from day0.spec.step import Segment, Turn


def run(x_TD: Tensor, m: CompressedAttention, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    turn = segment.rotary[m.rope]
    latent_TC, kv_TQ = ops.linear(x_TD, w.qkv_a).split((m.q_lora_rank, m.head_dim), dim=-1)
    latent_TC = ops.rms_norm(latent_TC, w.q_a_norm, m.norm.eps, m.norm.plus_one)
    q_THQ = ops.linear(latent_TC, w.q_b).unflatten(-1, (m.heads, m.head_dim))
    q_THQ = rotated(ops.rms_norm(q_THQ, q_THQ.new_ones(m.head_dim), m.norm.eps), turn, m, ops)
    kv_TQ = ops.rms_norm(kv_TQ, w.kv_norm, m.norm.eps, m.norm.plus_one)
    state.append("window", rotated(kv_TQ[:, None], turn, m, ops)[:, 0], segment)
    entries, chosen_TK = None, None
    if m.every:
        chosen_TK = compress(x_TD, latent_TC, m, w, state, segment, ops)
        entries = state.pages("compress")
    o_THQ = ops.compressed_attention(q_THQ, state.pages("window"), entries, segment, m.window, m.every, w.sinks, m.scale, chosen_TK)
    o_TGI = rotated(o_THQ, turn.inverse, m, ops).flatten(1).unflatten(-1, (m.out_groups, -1))
    return ops.linear(ops.grouped_linear(o_TGI, w.o_a), w.o_b)


def rotated(x_THQ: Tensor, turn: Turn, m: CompressedAttention, ops: Any) -> Tensor:
    """Heads with their last dimensions rotated."""
    plain, last = x_THQ.split((x_THQ.shape[-1] - m.rope.dim, m.rope.dim), dim=-1)
    return torch.cat((plain, ops.rotary(last, turn, m.rope.interleaved)), dim=-1)


def compress(x_TD: Tensor, latent_TC: Tensor, m: CompressedAttention, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor | None:
    """Write the entries that the new tokens complete; → the entries that each query reads [T, K], None where it reads all."""
    widths = [2 * m.projected(width) for _, width in m.compressors()]
    *rows, weights_TH = ops.linear(x_TD, w.compressors).split((*widths, m.indexer.heads if m.indexer else 0), dim=-1)
    for (name, _), rows_TC in zip(m.compressors(), rows, strict=True):
        whole_NSC = complete(rows_TC, f"{name}_tail", m.every, m.every if m.overlap else 0, state, segment)
        values, gates, bias = runs(whole_NSC, getattr(w, f"{name}_bias"), m.overlap)
        entries_NQ = ops.rms_norm(ops.gated_pool(values, gates, bias), getattr(w, f"{name}_norm"), m.norm.eps, m.norm.plus_one)
        state.append(name, rotated(entries_NQ[:, None], entry_turn(m.rope, m.every, segment), m, ops)[:, 0], segment)
    if m.indexer is None:
        return None
    q_THQ = ops.linear(latent_TC, w.index_q).unflatten(-1, (m.indexer.heads, m.indexer.dim))
    q_THQ = rotated(q_THQ, segment.rotary[m.rope], m, ops)
    return ops.choose_entries(q_THQ, weights_TH, state.pages("index"), segment, m.every, m.indexer.top_k, m.indexer.scale)


def complete(rows_TC: Tensor, tail: str, every: int, lead: int, state: Any, segment: Segment) -> Tensor:
    """Rows [N, S, C] of the runs of `every` tokens that the new ones complete, each after the `lead` rows before it.

    They begin in the state `tail`, which keeps the rows of the last tokens. The second half of a row are gates: minus infinity before the
    first token of a sequence.
    """
    tail_BSC = state.read(tail, segment)
    kept = tail_BSC.shape[1]
    found, tails, start = [], [], 0
    for b, count in enumerate(segment.queries):
        joined_SC = torch.cat((tail_BSC[b], rows_TC[start : start + count]))
        tails.append(joined_SC[len(joined_SC) - kept :])
        start += count
        before = segment.lengths[b] - count
        for n in range(before // every, segment.lengths[b] // every):
            begin = n * every - lead - (before - kept)
            run_SC = joined_SC[begin : begin + lead + every]
            if lead and n == 0:
                run_SC = run_SC.clone()
                run_SC[:lead, run_SC.shape[1] // 2 :] = float("-inf")
            found.append(run_SC)
    state.write(tail, torch.stack(tails), segment)
    return torch.stack(found) if found else rows_TC.new_empty(0, lead + every, rows_TC.shape[1])


def runs(rows_NSC: Tensor, bias: Tensor, overlap: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Values and gates [N, S, Q] to be pooled, and the bias of each place [S, Q].

    Where entries overlap, the run before counts with the first half of its projections and the run itself with the second.
    """
    if not overlap:
        values, gates = rows_NSC.chunk(2, dim=-1)
        return values, gates, bias
    early, late = (rows.unflatten(-1, (2, 2, -1)) for rows in rows_NSC.chunk(2, dim=1))
    both = torch.cat((early[..., 0, :], late[..., 1, :]), dim=1)
    return both[:, :, 0], both[:, :, 1], torch.cat(bias.chunk(2, dim=-1))


def entry_turn(rope: Rope, every: int, segment: Segment) -> Turn:
    """Angles at the first token of each entry that the step completes; all layers with runs of the same length share them."""
    key = ("entry turn", rope, every)
    if key not in segment.shared:
        spans = zip(segment.queries, segment.lengths, strict=True)
        starts = [n * every for count, length in spans for n in range((length - count) // every, length // every)]
        positions_N = torch.tensor(starts, dtype=torch.int64, device=segment.positions_T.device)
        segment.shared[key] = segment.rotary[rope].at(positions_N)
    turn: Turn = segment.shared[key]
    return turn


BLOCK = MixerBlock(prefill=run, decode=run)
