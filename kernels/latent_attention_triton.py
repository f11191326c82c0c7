"""Absorbed latent attention: one program reads a stretch of one sequence's entries once, as keys and as values, for a tile of queries.

A tile's rows are (token, head) pairs, because all heads read the same entries. Where tiles are few and sequences long, a sequence is cut
into parts that are joined by the logarithms of their sums. Scores and sums in float32.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import runs
from day0.kernels.tiles.softmax import LOG2E, divide, fold, joined, put, results
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def attend(
    q_latent, q_rotary, pages, tiles, table, out, sums, latent_token, latent_head, rotary_token, rotary_head, columns, parts, scale,
    H: tl.constexpr, C: tl.constexpr, R: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    LATENT: tl.constexpr, ROTARY: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(2)
    tile = tiles + tl.program_id(0) * 4
    sequence, first, count, position = tl.load(tile), tl.load(tile + 1), tl.load(tile + 2), tl.load(tile + 3)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real = row < count * H
    token, head, at = (first + row // H).to(tl.int64), row % H, position + row // H
    c, r = tl.arange(0, LATENT), tl.arange(0, ROTARY)
    query = q_latent + (token * latent_token + head * latent_head)[:, None] + c[None, :]
    q_c = tl.load(query, mask=real[:, None] & (c < C)[None, :], other=0.0)
    query = q_rotary + (token * rotary_token + head * rotary_head)[:, None] + r[None, :]
    q_r = tl.load(query, mask=real[:, None] & (r < R)[None, :], other=0.0)
    high = position + count
    length = tl.cdiv(tl.cdiv(high, parts), KEYS) * KEYS
    begin = part * length
    end = tl.minimum(begin + length, high)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, LATENT], tl.float32)
    for start in range(begin, end, KEYS):
        s = start + tl.arange(0, KEYS)
        there = s < end
        place = tl.load(table + sequence * columns + s // WIDTH, mask=there, other=0) * WIDTH + s % WIDTH
        entry = pages + place * (C + R)
        latent = tl.load(entry[:, None] + c[None, :], mask=there[:, None] & (c < C)[None, :], other=0.0)
        rotary = tl.load(entry[None, :] + C + r[:, None], mask=there[None, :] & (r < R)[:, None], other=0.0)
        scores = tl.dot(q_r, rotary, input_precision="bf16x6")
        scores = tl.dot(q_c, tl.trans(latent), scores, input_precision="bf16x6")
        seen = there[None, :] & (s[None, :] <= at[:, None])
        scores = tl.where(seen, scores * scale, float("-inf"))
        weights, fade, best, total = fold(scores, best, total)
        acc = tl.dot(weights.to(latent.dtype), latent, acc * fade[:, None], input_precision="bf16x6")
    put(out, sums, (token * H + head) * parts + part, real, c, C, acc, best, total)


def launch(q_THC: Any, q_THR: Any, pages: Any, segment: Any, scale: float) -> Any:
    (_, H, C), R = q_THC.shape, q_THR.shape[2]
    q_THC, q_THR = (q if q.stride(2) == 1 else q.contiguous() for q in (q_THC, q_THR))
    sizes = tuned("latent_attention", pages.device, rows=H * max(segment.queries), bytes=pages.element_size())
    rows = sizes["ROWS"]
    tokens = max(1, rows // H)
    tiles, blocks = runs(segment, tokens, pages.device), triton.cdiv(min(tokens, max(segment.queries)) * H, rows)
    parts = divide(len(tiles) * blocks, segment.longest)
    out, partial, sums = results(q_THC, C, parts)
    latent, rotary = (max(16, triton.next_power_of_2(width)) for width in (C, R))
    attend[len(tiles), blocks, parts](
        q_THC, q_THR, pages, tiles, segment.table_BP, partial, sums, *q_THC.stride()[:2], *q_THR.stride()[:2],
        segment.table_BP.shape[1], parts, scale * LOG2E, H=H, C=C, R=R, WIDTH=pages.shape[1], LATENT=latent, ROTARY=rotary, **sizes,
    )  # fmt: skip
    return joined(out, partial, sums)


def refuses(site: Site, machine: Any) -> str | None:
    if site.dtype == "float32" and site.C > 128:
        return "latents of float32 wider than 128 do not fit the registers of a block"
    return unlaunchable(site, machine)


IMPL = Impl(op="latent_attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(Build(sizes={"queries": (1,), "before": (8191,), "H": heads, "C": 512, "R": 64}) for heads in (16, 128))
