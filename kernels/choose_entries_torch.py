"""Scores of compressed entries by products over a few queries, and the best of them around the k-th; only those are put in order."""

from typing import Any

from day0.kernels.index_select_torch import kept
from day0.spec.lazy import torch, wide
from day0.spec.ops import Impl, Site

ELEMENTS = 1 << 23  # of single heads' products that are held at once


def launch(q_THQ: Any, weights_TH: Any, pool: Any, segment: Any, every: int, top_k: int, scale: float) -> Any:
    T, H, _ = q_THQ.shape
    chosen_TK = torch.full((T, top_k), -1, dtype=torch.int64, device=q_THQ.device)
    start = 0
    for b, count in enumerate(segment.queries):
        keys_QN, stop = wide(segment.entries(pool, b, ("compressed", every, None))).T, start + count
        found = min(top_k, keys_QN.shape[1])
        step = max(1, ELEMENTS // max(1, H * keys_QN.shape[1]))
        for row in range(start, stop, step) if found else ():
            rows = slice(row, min(row + step, stop))
            chosen_TK[rows, :found] = _best(q_THQ[rows], weights_TH[rows], keys_QN, segment.positions_T[rows], every, found, scale)
        start = stop
    return chosen_TK


def _best(q_THQ: Any, weights_TH: Any, keys_QN: Any, positions_T: Any, every: int, top_k: int, scale: float) -> Any:
    """[T, K], best first; of equal ones the lower number, because that is the order in which they are kept."""
    dots_THN = (wide(q_THQ) @ keys_QN).relu_().mul_(scale)
    scores_TN = (wide(weights_TH)[:, None] @ dots_THN)[:, 0]
    later_TN = torch.arange(scores_TN.shape[1], device=scores_TN.device) >= ((positions_T + 1) // every)[:, None]
    scores_TN.masked_fill_(later_TN, float("-inf"))
    numbers_TK = kept(scores_TN, top_k)
    best_TK = scores_TN.gather(1, numbers_TK.clamp(min=0)).masked_fill_(numbers_TK < 0, float("-inf"))
    return numbers_TK.gather(1, best_TK.sort(dim=-1, descending=True, stable=True).indices)


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="choose_entries", provider="torch", fn=launch, refuses=refuses, status="composite")
