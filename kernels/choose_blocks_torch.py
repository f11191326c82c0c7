"""Blocks by their best key, scored by products over a few queries at a time."""

from typing import Any

from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED

ELEMENTS = 1 << 23  # of scores that are held at once


def launch(q_THQ: Any, pages: Any, segment: Any, block: int, top_k: int, local: int) -> Any:
    T, H, _ = q_THQ.shape
    chosen_THK = torch.full((T, H, top_k), -1, dtype=torch.int64, device=q_THQ.device)
    start = 0
    for b, count in enumerate(segment.queries):
        keys_QS, stop = wide(segment.entries(pages, b, PAGED)).T, start + count
        found = min(top_k, -(-keys_QS.shape[1] // block))
        step = max(1, ELEMENTS // (H * keys_QS.shape[1]))
        for row in range(start, stop, step):
            rows = slice(row, min(row + step, stop))
            chosen_THK[rows, :, :found] = _best(q_THQ[rows], keys_QS, segment.positions_T[rows], block, found, local)
        start = stop
    return chosen_THK


def _best(q_THQ: Any, keys_QS: Any, positions_T: Any, block: int, top_k: int, local: int) -> Any:
    """[T, H, K], best first."""
    S, at_T11 = keys_QS.shape[1], positions_T[:, None, None]
    scores_THS = (wide(q_THQ) @ keys_QS).masked_fill_(torch.arange(S, device=keys_QS.device) > at_T11, float("-inf"))
    scores_THN = functional.pad(scores_THS, (0, -S % block), value=float("-inf")).unflatten(-1, (-1, block)).amax(-1)
    numbers_N, last_T11 = torch.arange(scores_THN.shape[-1], device=keys_QS.device), at_T11 // block
    scores_THN.masked_fill_((numbers_N <= last_T11) & (numbers_N > last_T11 - local), float("inf"))
    ranked = scores_THN.sort(dim=-1, descending=True, stable=True)
    return ranked.indices.masked_fill(ranked.values == float("-inf"), -1)[..., :top_k]


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="choose_blocks", provider="torch", fn=launch, refuses=refuses, status="composite")
