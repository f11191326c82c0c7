"""Indexer scores by matrix products over a few queries at a time, so that the products of single heads never take more than one block."""

from typing import Any

from day0.spec.lazy import torch, wide
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED

ELEMENTS = 1 << 24  # of single heads' products that are held at once


def launch(q_THQ: Any, weights_TH: Any, pages: Any, segment: Any) -> Any:
    T, H, _ = q_THQ.shape
    q_THQ = wide(q_THQ)
    scores_TS = torch.full((T, segment.longest), float("-inf"), dtype=q_THQ.dtype, device=pages.device)
    start = 0
    for b, count in enumerate(segment.queries):
        keys_QS = wide(segment.entries(pages, b, PAGED)).T
        S, stop = keys_QS.shape[1], start + count
        step = max(1, ELEMENTS // (H * S))
        for row in range(start, stop, step):
            end = min(row + step, stop)
            dots_THS = (q_THQ[row:end] @ keys_QS).relu_()
            scores_TS[row:end, :S] = (weights_TH[row:end, None].to(dots_THS.dtype) @ dots_THS)[:, 0]
        start = stop
    later_TS = torch.arange(segment.longest, device=pages.device) > segment.positions_T[:, None]
    return scores_TS.masked_fill_(later_TS, float("-inf"))


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="index_scores", provider="torch", fn=launch, refuses=refuses, status="composite")
