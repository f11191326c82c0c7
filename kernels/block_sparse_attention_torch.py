"""Block-sparse attention by SDPA: over the chosen blocks of a few tokens at a time, gathered for each, and nothing else.

Where prompts are not much longer than what a query may read, over all of a sequence, with a mask of what was chosen: that takes less time.
"""

from typing import Any

from day0.kernels.attention_torch import as_wide
from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED

ELEMENTS = 1 << 23  # of gathered keys and values, or of masks, that are held at once
LONG = 8  # times what a query may read: from there on gathering for each token of a prompt takes less time


def launch(q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, chosen_TNK: Any, block: int, scale: float) -> Any:
    T, H, Q = q_THQ.shape
    N, V = v_pages.shape[-2:]
    blocks_TNK, positions_T = once(chosen_TNK), segment.positions_T
    o_THV, start = q_THQ.new_empty(T, H, V), 0
    read = chosen_TNK.shape[-1] * block
    if segment.longest > (read if segment.phase == "decode" else LONG * read):
        k, v = (pages.flatten(0, 1).flatten(0, 1) for pages in (k_pages, v_pages))
        step = max(1, ELEMENTS // (N * read * (Q + V)))
        for first in range(0, T, step):
            rows = slice(first, min(first + step, T))
            position, seen = _tokens(blocks_TNK[rows], positions_T[rows], block)
            place_TNS = segment.places(position.flatten(1), k_pages.shape[1], rows).view(position.shape)
            o_THV[rows] = _gathered(q_THQ[rows], k, v, place_TNS, seen, scale)
        return o_THV
    for b, count in enumerate(segment.queries):
        k_SNQ, v_SNV = (segment.entries(pages, b, PAGED) for pages in (k_pages, v_pages))
        step = max(1, ELEMENTS // (N * len(k_SNQ)))
        for first in range(start, start + count, step):
            rows = slice(first, min(first + step, start + count))
            o_THV[rows] = _masked(q_THQ[rows], k_SNQ, v_SNV, blocks_TNK[rows], positions_T[rows], block, scale)
        start += count
    return o_THV


def once(numbers_K: Any) -> Any:
    """Numbers in rising order; those that were there before are -1."""
    numbers_K = numbers_K.sort(dim=-1).values
    again = numbers_K[..., 1:] == numbers_K[..., :-1]
    numbers_K[..., 1:] = numbers_K[..., 1:].masked_fill(again, -1)
    return numbers_K


def among(numbers_K: Any, count: int) -> Any:
    """[…, K] numbers → […, count] whether each is among them; those below 0 or from `count` on are none."""
    found = torch.zeros(*numbers_K.shape[:-1], count + 1, dtype=torch.bool, device=numbers_K.device)
    return found.scatter_(-1, numbers_K.masked_fill((numbers_K < 0) | (numbers_K >= count), count), True)[..., :count]


def _tokens(blocks_TNK: Any, positions_T: Any, block: int) -> Any:
    """(positions of each block's tokens [T, N, S], which of them the query may see); the others are at 0."""
    position = blocks_TNK[..., None] * block + torch.arange(block, device=blocks_TNK.device)
    seen = (position >= 0) & (position <= positions_T[:, None, None, None])
    return position.masked_fill_(~seen, 0).flatten(2), seen.flatten(2)


def _gathered(q_THQ: Any, k: Any, v: Any, place_TNS: Any, seen_TNS: Any, scale: float) -> Any:
    """[T, H, V]: (token, key head) pairs are sequences of their own, query heads that share a key head their queries."""
    T, N, S = place_TNS.shape
    rows = (place_TNS * N + torch.arange(N, device=place_TNS.device)[:, None]).flatten()
    k, v = (x.index_select(0, rows).view(T * N, 1, S, -1) for x in (k, v))
    q = q_THQ.unflatten(1, (N, -1)).flatten(0, 1)[:, None]
    return _attended(q, k, v, seen_TNS.view(T * N, 1, 1, S), scale).view(T, -1, v.shape[-1])


def _masked(q_THQ: Any, k_SNQ: Any, v_SNV: Any, blocks_TNK: Any, positions_T: Any, block: int, scale: float) -> Any:
    """[T, H, V]: key heads are sequences of their own, because each has its own mask."""
    S, N, _ = k_SNQ.shape
    seen_TNS = among(blocks_TNK, -(-S // block)).repeat_interleave(block, dim=-1)[..., :S]
    seen_TNS = seen_TNS & (torch.arange(S, device=q_THQ.device) <= positions_T[:, None, None])
    q = q_THQ.unflatten(1, (N, -1)).permute(1, 2, 0, 3)
    k, v = (x.transpose(0, 1)[:, None] for x in (k_SNQ, v_SNV))
    return _attended(q, k, v, seen_TNS.transpose(0, 1)[:, None], scale).permute(2, 0, 1, 3).flatten(1, 2)


def _attended(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    width, v = v.shape[-1], as_wide(v, k)
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return out[..., :width]


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="block_sparse_attention", provider="torch", fn=launch, refuses=refuses, status="composite")
