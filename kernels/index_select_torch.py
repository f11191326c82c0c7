"""Exact selection around the k-th best score, for a few queries at a time: what is above it, and the first of what equals it. Nothing is sorted."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site

ELEMENTS = 1 << 23  # of scores that are looked at at once


def launch(scores_TS: Any, top_k: int) -> Any:
    T, S = scores_TS.shape
    K, step = min(top_k, S), max(1, ELEMENTS // S)
    if step >= T:
        return kept(scores_TS, K)
    indices_TK = torch.empty(T, K, dtype=torch.int64, device=scores_TS.device)
    for row in range(0, T, step):
        rows = slice(row, min(row + step, T))
        indices_TK[rows] = kept(scores_TS[rows], K)
    return indices_TK


def kept(scores_TS: Any, K: int) -> Any:
    """[T, K] positions of the K best of each row, in rising order; -1 behind them where fewer are above minus infinity."""
    last_T1 = scores_TS.topk(K, dim=-1).values[:, -1:]
    above_TS, equal_TS = scores_TS > last_T1, scores_TS == last_T1
    room_T1 = K - above_TS.sum(-1, keepdim=True)
    kept_TS = above_TS | (equal_TS & (equal_TS.cumsum(-1) <= room_T1))
    kept_TS &= scores_TS > float("-inf")
    rows, positions = kept_TS.nonzero(as_tuple=True)
    indices_TK = torch.full((len(scores_TS), K), -1, dtype=torch.int64, device=scores_TS.device)
    indices_TK[rows, kept_TS.cumsum(-1)[rows, positions] - 1] = positions
    return indices_TK


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="index_select", provider="torch", fn=launch, refuses=refuses, status="composite")
