"""The best key of each block in one pass: one program holds one block of keys for a tile of (token, head) rows. Blocks are ranked by torch's
stable sort, so that ties go to the lower one.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import runs
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned

LONGEST = 256  # tokens of a block


@triton.jit
def score(
    q, pages, tiles, table, out, q_token, q_head, columns, blocks, local, H: tl.constexpr, Q: tl.constexpr, SPAN: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    tile, block = tiles + tl.program_id(0) * 4, tl.program_id(1)
    sequence, first, count, position = tl.load(tile), tl.load(tile + 1), tl.load(tile + 2), tl.load(tile + 3)
    row, j, d = tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, HEAD)
    real, token, head, at = row < count * H, (first + row // H).to(tl.int64), row % H, position + row // H
    query = q + (token * q_token + head * q_head)[:, None] + d[None, :]
    query = tl.load(query, mask=real[:, None] & (d < Q)[None, :], other=0.0)
    s = block * SPAN + j
    there = (j < SPAN) & (s < position + count)
    place = tl.load(table + sequence * columns + s // WIDTH, mask=there, other=0) * WIDTH + s % WIDTH
    key = tl.load(pages + (place * Q)[None, :] + d[:, None], mask=there[None, :] & (d < Q)[:, None], other=0.0)
    scores = tl.dot(query, key, input_precision="bf16x6")
    best = tl.max(tl.where(there[None, :] & (s[None, :] <= at[:, None]), scores, float("-inf")), 1)
    last = at // SPAN
    best = tl.where((block <= last) & (block > last - local), float("inf"), best)
    tl.store(out + (token * H + head) * blocks + block, best, mask=real)


def launch(q_THQ: Any, pages: Any, segment: Any, block: int, top_k: int, local: int) -> Any:
    (T, H, Q), blocks, device = q_THQ.shape, triton.cdiv(segment.longest, block), q_THQ.device
    q_THQ = q_THQ if q_THQ.stride(2) == 1 else q_THQ.contiguous()
    sizes = dict(tuned("choose_blocks", device, bytes=q_THQ.element_size()))
    sizes["ROWS"] = max(sizes["ROWS"], triton.next_power_of_2(H))
    tiles = runs(segment, sizes["ROWS"] // H, device)
    scores_THN = torch.empty(T, H, blocks, dtype=torch.float32, device=device)
    score[len(tiles), blocks](
        q_THQ, pages, tiles, segment.table_BP, scores_THN, *q_THQ.stride()[:2], segment.table_BP.shape[1], blocks, local, H=H, Q=Q,
        SPAN=block, WIDTH=pages.shape[1], KEYS=max(16, triton.next_power_of_2(block)), HEAD=max(16, triton.next_power_of_2(Q)), **sizes,
    )  # fmt: skip
    ranked, found = scores_THN.sort(dim=-1, descending=True, stable=True), min(top_k, blocks)
    chosen_THK = torch.full((T, H, top_k), -1, dtype=torch.int64, device=device)
    chosen_THK[..., :found] = ranked.indices[..., :found].masked_fill(ranked.values[..., :found] == float("-inf"), -1)
    return chosen_THK


def refuses(site: Site, machine: Any) -> str | None:
    if site.options["block"] > LONGEST:
        return f"blocks are longer than {LONGEST}"
    return unlaunchable(site, machine)


IMPL = Impl(op="choose_blocks", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"queries": (64,), "before": (8192,), "H": 4, "Q": 128, "K": 16, "block": 128}),)
