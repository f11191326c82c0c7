"""Latent attention: the state holds one latent and one rotated key a token.

Prefill expands them for each head; decode works in latent space (the absorbed form)."""

from typing import Any

import torch
from torch import Tensor

from day0.parts.mla import Mla
from day0.spec.block import MixerBlock
from day0.spec.packed import rows
from day0.spec.state import PAGED
from day0.spec.step import Segment

WIDTH = 2048  # of keys and values that are expanded at once: those of a few heads, where a context is long
WORD = 8  # rows that some formats pack into one word


def prefill(x_TD: Tensor, m: Mla, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    q_THN, q_THR = project(x_TD, query_input(x_TD, m, w, ops), m, w, state, segment, ops)
    return attend_expanded(x_TD, q_THN, q_THR, m, w, state, segment, ops)


def decode(x_TD: Tensor, m: Mla, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    q_THN, q_THR = project(x_TD, query_input(x_TD, m, w, ops), m, w, state, segment, ops)
    return attend_absorbed(x_TD, q_THN, q_THR, m, w, state, segment, ops)


def query_input(x_TD: Tensor, m: Mla, w: Any, ops: Any) -> Tensor:
    """What queries are projected from: the query latent, or the hidden states where there is none."""
    if m.q_lora_rank is None:
        return x_TD
    return ops.rms_norm(ops.linear(x_TD, w.q_a, w.q_a_bias if m.bias else None), w.q_a_norm, m.norm.eps, m.norm.plus_one)


def project(x_TD: Tensor, query_TC: Tensor, m: Mla, w: Any, state: Any, segment: Segment, ops: Any) -> tuple[Tensor, Tensor]:
    """Queries of each head, plain and rotated part; writes the new tokens' latents and rotated keys to the state."""
    q_THQ = ops.linear(query_TC, w.q_b).unflatten(-1, (m.heads, m.qk_dim))
    if m.temperature:
        q_THQ = q_THQ * m.temperature.factors(segment.positions_T).to(q_THQ.dtype)[:, None, None]
    q_THN, q_THR = q_THQ.split((m.qk_nope_head_dim, m.qk_rope_head_dim), dim=-1)
    latent_TC, key_TR = ops.linear(x_TD, w.kv_a, w.kv_a_bias if m.bias else None).split((m.kv_lora_rank, m.qk_rope_head_dim), dim=-1)
    latent_TC = ops.rms_norm(latent_TC, w.kv_a_norm, m.norm.eps, m.norm.plus_one)
    if m.latent_scale != 1:
        latent_TC = latent_TC * m.latent_scale
    if m.rope:
        turn = segment.rotary[m.rope]
        q_THR = ops.rotary(q_THR, turn, m.rope.interleaved)
        key_TR = ops.rotary(key_TR[:, None], turn, m.rope.interleaved)[:, 0]
    state.append("latent", torch.cat((latent_TC, key_TR), dim=-1), segment)
    return q_THN, q_THR


def attend_expanded(
    x_TD: Tensor, q_THN: Tensor, q_THR: Tensor, m: Mla, w: Any, state: Any, segment: Segment, ops: Any
) -> Tensor:
    """Attention to keys and values that are expanded for each head, a few heads after the other."""
    q_THQ = torch.cat((q_THN, q_THR), dim=-1)
    outputs, start, few = [], 0, at_once(m)
    for b, count in enumerate(segment.queries):
        entries_S = segment.entries(state.pages("latent"), b, PAGED)
        for head in range(0, m.heads, few):
            expanded = expand(entries_S, head, few, m, w, ops)
            outputs.append(ops.attention(q_THQ[start : start + count, head : head + few], *expanded, m.scale))
            del expanded  # those of two would be held at once
        start += count
    o_THV = torch.cat(outputs) if few == m.heads else beside(outputs, m.heads // few)
    return output(x_TD, o_THV, m, w, ops)


def at_once(m: Mla) -> int:
    """Heads that are expanded together: all, or as many as `WIDTH` takes of those that divide them. Independent of the context, so that
    what prefill holds grows evenly with it."""
    width = m.qk_nope_head_dim + m.v_head_dim
    fitting = (few for few in range(1, m.heads + 1) if m.heads % few == 0 and few * width <= WIDTH and few * width % WORD == 0)
    return max(fitting, default=m.heads)


def beside(outputs: list[Tensor], count: int) -> Tensor:
    """Heads of each sequence side by side, which came in `count` pieces, and the sequences one after the other."""
    return torch.cat([torch.cat(outputs[first : first + count], dim=1) for first in range(0, len(outputs), count)])


def attend_absorbed(
    x_TD: Tensor, q_THN: Tensor, q_THR: Tensor, m: Mla, w: Any, state: Any, segment: Segment, ops: Any
) -> Tensor:
    """Attention to latents, with queries carried into their space."""
    q_THC = ops.absorb_query(q_THN, w.kv_b, m.v_head_dim)
    o_THC = ops.latent_attention(q_THC, q_THR, state.pages("latent"), segment, m.scale)
    return output(x_TD, ops.expand_value(o_THC, w.kv_b, m.v_head_dim), m, w, ops)


def expand(entries_S: Tensor, head: int, few: int, m: Mla, w: Any, ops: Any) -> tuple[Tensor, Tensor]:
    """Keys and values of a few heads, from `head` on, from the entries of one sequence."""
    latent_SC, key_SR = entries_S.split((m.kv_lora_rank, m.qk_rope_head_dim), dim=-1)
    width = m.qk_nope_head_dim + m.v_head_dim
    kv_b = w.kv_b if few == m.heads else rows(w.kv_b, head * width, (head + few) * width)
    k_SHN, v_SHV = ops.linear(latent_SC, kv_b).unflatten(-1, (few, width)).split((m.qk_nope_head_dim, m.v_head_dim), dim=-1)
    return torch.cat((k_SHN, key_SR[:, None].expand(-1, few, -1)), dim=-1), v_SHV


def output(x_TD: Tensor, o_THV: Tensor, m: Mla, w: Any, ops: Any) -> Tensor:
    """Heads side by side, weighed by their gate where there is one, and mapped back to the model's width."""
    o = o_THV.flatten(1)
    if m.gate:
        o = o * ops.linear(x_TD, w.gate).sigmoid()
    return ops.linear(o, w.o, w.o_bias if m.bias else None)


BLOCK = MixerBlock(prefill=prefill, decode=decode)
