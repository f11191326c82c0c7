"""Indexer scores: one program holds a block of keys for a few tokens, and one token's heads are the rows of a matrix product."""

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
    q, weights, pages, tiles, table, out, q_token, q_head, columns, longest, H: tl.constexpr, Q: tl.constexpr, WIDTH: tl.constexpr,
    HEADS: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    tile = tiles + tl.program_id(0) * 4
    sequence, first, count, position = tl.load(tile), tl.load(tile + 1), tl.load(tile + 2), tl.load(tile + 3)
    s = tl.program_id(1) * KEYS + tl.arange(0, KEYS)
    d = tl.arange(0, HEAD)
    there = s < position + count
    place = tl.load(table + sequence * columns + s // WIDTH, mask=there, other=0) * WIDTH + s % WIDTH
    key = tl.load(pages + (place * Q)[None, :] + d[:, None], mask=there[None, :] & (d < Q)[:, None], other=0.0)
    for i in range(count):
        token = (first + i).to(tl.int64)
        scores = scored(q, weights, key, token, q_token, q_head, 1.0, H, Q, HEADS, KEYS, HEAD)
        tl.store(out + token * longest + s, tl.where(s <= position + i, scores, float("-inf")), mask=s < longest)


def launch(q_THQ: Any, weights_TH: Any, pages: Any, segment: Any) -> Any:
    T, H, Q = q_THQ.shape
    q_THQ = q_THQ if q_THQ.stride(2) == 1 else q_THQ.contiguous()
    longest, sizes = segment.longest, tuned("index_scores", pages.device, heads=H, bytes=q_THQ.element_size())
    tiles = runs(segment, 8, pages.device)
    scores_TS = torch.empty(T, longest, dtype=torch.float32, device=pages.device)
    score[len(tiles), triton.cdiv(longest, sizes["KEYS"])](
        q_THQ, weights_TH.contiguous(), pages, tiles, segment.table_BP, scores_TS, q_THQ.stride(0), q_THQ.stride(1),
        segment.table_BP.shape[1], longest, H=H, Q=Q, WIDTH=pages.shape[1],
        HEAD=max(16, triton.next_power_of_2(Q)), **sizes,
    )  # fmt: skip
    return scores_TS


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="index_scores", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"queries": (64,), "before": (8192,), "H": 64, "Q": 128}),)
