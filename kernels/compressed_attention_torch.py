"""Attention over a window and compressed entries by products over a few queries, with the window that they see and the entries they chose.

Chosen entries are gathered for each token where a sequence has many more; else all are read, and those that were not chosen masked.
"""

from typing import Any

from day0.kernels.block_sparse_attention_torch import among, once
from day0.spec.lazy import torch, wide
from day0.spec.ops import Impl, Site

ELEMENTS = 1 << 23  # of scores, or of gathered entries, that are held at once
QUERIES = 128  # together at the most, so that they read little beyond their windows


def launch(
    q_THQ: Any, ring: Any, pool: Any, segment: Any, window: int, every: int, sinks_H: Any, scale: float, chosen_TK: Any = None
) -> Any:
    _, H, Q = q_THQ.shape
    group, numbers_TK = ("window", 1, window), None if chosen_TK is None else once(chosen_TK)
    o_THQ, start = torch.empty_like(q_THQ), 0
    for b, count in enumerate(segment.queries):
        keys_SQ, first = segment.entries(ring, b, group), segment.first(b, group)
        entries_NQ = None if pool is None else segment.entries(pool, b, ("compressed", every, None))
        far, own = 0 if entries_NQ is None else len(entries_NQ), 0
        if numbers_TK is not None and far > 2 * numbers_TK.shape[1]:
            far = numbers_TK.shape[1]
            own = far * Q
        step = max(1, min(QUERIES, ELEMENTS // max(H * (window + QUERIES + far), own)))
        before = segment.lengths[b] - count
        for row in range(0, count, step):
            end = min(row + step, count)
            low, rows = max(first, before + row - window + 1), slice(start + row, start + end)
            near_SQ, at_T = keys_SQ[low - first : before + end - first], segment.positions_T[rows]
            place_S = torch.arange(low, before + end, device=ring.device)
            hidden_TS = (place_S > at_T[:, None]) | (place_S <= at_T[:, None] - window)
            numbers = None if numbers_TK is None else numbers_TK[rows]
            o_THQ[rows] = _attended(q_THQ[rows], near_SQ, hidden_TS, entries_NQ, numbers, at_T, every, own > 0, sinks_H, scale)
        start += count
    return o_THQ


def _attended(
    q_THQ: Any, near_SQ: Any, hidden_TS: Any, entries_NQ: Any, numbers_TK: Any, at_T: Any, every: int, gathers: bool, sinks_H: Any,
    scale: float,
) -> Any:  # fmt: skip
    """[T, H, Q]"""
    q, near = wide(q_THQ), wide(near_SQ)
    T, H, _ = q.shape
    scores, hidden, far = [q @ near.T], [hidden_TS], None
    if entries_NQ is not None:
        far, hidden_TN = _far(entries_NQ, numbers_TK, at_T, every, gathers)
        scores.append(q @ far.mT)
        hidden.append(hidden_TN)
    scores_THS = torch.cat(scores, dim=-1).mul_(scale)
    scores_THS.masked_fill_(torch.cat(hidden, dim=-1)[:, None], float("-inf"))
    sink_TH1 = sinks_H.to(q.dtype)[None, :, None].expand(T, H, 1)
    weights_THS = torch.cat((scores_THS, sink_TH1), dim=-1).softmax(-1)
    o_THQ = weights_THS[..., : len(near)] @ near
    if far is not None:
        o_THQ += weights_THS[..., len(near) : -1] @ far
    return o_THQ.to(q_THQ.dtype)


def _far(entries_NQ: Any, numbers_TK: Any, at_T: Any, every: int, gathers: bool) -> Any:
    """(entries [N, Q], or each token's own [T, K, Q], and which of them it does not see)."""
    complete_T1 = ((at_T + 1) // every)[:, None]
    if gathers:
        hidden_TK = (numbers_TK < 0) | (numbers_TK >= complete_T1)
        numbers = numbers_TK.masked_fill(hidden_TK, 0)
        return wide(entries_NQ.index_select(0, numbers.flatten()).view(*numbers.shape, -1)), hidden_TK
    count = len(entries_NQ)
    hidden_TN = torch.arange(count, device=at_T.device) >= complete_T1
    if numbers_TK is not None:
        hidden_TN = hidden_TN | ~among(numbers_TK, count)
    return wide(entries_NQ), hidden_TN


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="compressed_attention", provider="torch", fn=launch, refuses=refuses, status="composite")
