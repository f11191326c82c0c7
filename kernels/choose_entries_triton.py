"""Scores of compressed keys in one pass: one program holds a block of keys for a few tokens, and one token's heads are the rows of a matrix
product. They are ranked by torch's stable sort, so that ties go to the lower entry.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.indexer import scored
from day0.kernels.tiles.runs import runs
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def score(
    q, weights, pool, tiles, table, out, q_token, q_head, columns, entries, every, scale, H: tl.constexpr, Q: tl.constexpr,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    tile = tiles + tl.program_id(0) * 4
    sequence, first, count, position = tl.load(tile), tl.load(tile + 1), tl.load(tile + 2), tl.load(tile + 3)
    n, d = tl.program_id(1) * KEYS + tl.arange(0, KEYS), tl.arange(0, HEAD)
    there = n < (position + count) // every
    place = tl.load(table + sequence * columns + n // WIDTH, mask=there, other=0) * WIDTH + n % WIDTH
    key = tl.load(pool + (place * Q)[None, :] + d[:, None], mask=there[None, :] & (d < Q)[:, None], other=0.0)
    for i in range(count):
        token = (first + i).to(tl.int64)
        scores = scored(q, weights, key, token, q_token, q_head, scale, H, Q, HEADS, KEYS, HEAD)
        complete = n < (position + i + 1) // every
        tl.store(out + token * entries + n, tl.where(complete, scores, float("-inf")), mask=n < entries)


def launch(q_THQ: Any, weights_TH: Any, pool: Any, segment: Any, every: int, top_k: int, scale: float) -> Any:
    (T, H, Q), entries, device = q_THQ.shape, segment.longest // every, q_THQ.device
    chosen_TK, found = torch.full((T, top_k), -1, dtype=torch.int64, device=device), min(top_k, entries)
    if not entries:
        return chosen_TK
    q_THQ = q_THQ if q_THQ.stride(2) == 1 else q_THQ.contiguous()
    tiles, sizes = runs(segment, 8, device), tuned("choose_entries", device, heads=H, bytes=q_THQ.element_size())
    scores_TN = torch.empty(T, entries, dtype=torch.float32, device=device)
    score[len(tiles), triton.cdiv(entries, sizes["KEYS"])](
        q_THQ, weights_TH.contiguous(), pool, tiles, segment.table_BP, scores_TN, *q_THQ.stride()[:2], segment.table_BP.shape[1], entries,
        every, float(scale), H=H, Q=Q, WIDTH=pool.shape[1], HEAD=max(16, triton.next_power_of_2(Q)), **sizes,
    )  # fmt: skip
    ranked = scores_TN.sort(dim=-1, descending=True, stable=True)
    chosen_TK[:, :found] = ranked.indices[:, :found].masked_fill(ranked.values[:, :found] == float("-inf"), -1)
    return chosen_TK


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="choose_entries", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"queries": (64,), "before": (8192,), "H": 64, "Q": 128, "K": 512}),)
