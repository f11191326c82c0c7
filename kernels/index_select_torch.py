"""Exact selection around the k-th best score: what is above it, and the first of what equals it. Nothing is sorted."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(scores_TS: Any, top_k: int) -> Any:
    T, S = scores_TS.shape
    K = min(top_k, S)
    last_T1 = scores_TS.topk(K, dim=-1).values[:, -1:]
    above_TS, equal_TS = scores_TS > last_T1, scores_TS == last_T1
    room_T1 = K - above_TS.sum(-1, keepdim=True)
    kept_TS = above_TS | (equal_TS & (equal_TS.cumsum(-1) <= room_T1))
    kept_TS &= scores_TS > float("-inf")
    rows, positions = kept_TS.nonzero(as_tuple=True)
    indices_TK = torch.full((T, K), -1, dtype=torch.int64, device=scores_TS.device)
    indices_TK[rows, kept_TS.cumsum(-1)[rows, positions] - 1] = positions
    return indices_TK


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="index_select", provider="torch", fn=launch, refuses=refuses, status="composite")
