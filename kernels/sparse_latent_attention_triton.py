"""Sparse latent attention: one program gathers a part of one token's chosen entries for a tile of heads, and reads no others.

Where tokens are few, what a token has chosen is cut into parts that are joined by the logarithms of their sums. Scores and sums in float32.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.softmax import LOG2E, divide, fold, joined, put, results
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def attend(
    q_latent, q_rotary, pages, indices, sequences, table, out, sums, latent_token, latent_head, rotary_token, rotary_head, K, columns,
    parts, length, scale, H: tl.constexpr, C: tl.constexpr, R: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    LATENT: tl.constexpr, ROTARY: tl.constexpr,
):  # fmt: skip
    token, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    head = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real = head < H
    c, r = tl.arange(0, LATENT), tl.arange(0, ROTARY)
    query = q_latent + token * latent_token + (head * latent_head)[:, None] + c[None, :]
    q_c = tl.load(query, mask=real[:, None] & (c < C)[None, :], other=0.0)
    query = q_rotary + token * rotary_token + (head * rotary_head)[:, None] + r[None, :]
    q_r = tl.load(query, mask=real[:, None] & (r < R)[None, :], other=0.0)
    row = table + tl.load(sequences + token) * columns
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, LATENT], tl.float32)
    end = tl.minimum(part * length + length, K)
    for start in range(part * length, end, KEYS):
        k = start + tl.arange(0, KEYS)
        index = tl.load(indices + token * K + k, mask=k < end, other=-1)
        there = index >= 0
        place = tl.load(row + index // WIDTH, mask=there, other=0) * WIDTH + index % WIDTH
        entry = pages + place * (C + R)
        latent = tl.load(entry[:, None] + c[None, :], mask=there[:, None] & (c < C)[None, :], other=0.0)
        rotary = tl.load(entry[None, :] + C + r[:, None], mask=there[None, :] & (r < R)[:, None], other=0.0)
        scores = tl.dot(q_r, rotary, input_precision="bf16x6")
        scores = tl.dot(q_c, tl.trans(latent), scores, input_precision="bf16x6")
        scores = tl.where(there[None, :], scores * scale, float("-inf"))
        weights, fade, best, total = fold(scores, best, total)
        acc = tl.dot(weights.to(latent.dtype), latent, acc * fade[:, None], input_precision="bf16x6")
    put(out, sums, (token * H + head) * parts + part, real, c, C, acc, best, total)


def launch(q_THC: Any, q_THR: Any, pages: Any, segment: Any, indices_TK: Any, scale: float) -> Any:
    (T, H, C), R, K = q_THC.shape, q_THR.shape[2], indices_TK.shape[1]
    q_THC, q_THR = (q if q.stride(2) == 1 else q.contiguous() for q in (q_THC, q_THR))
    sizes = tuned("sparse_latent_attention", pages.device, heads=H, bytes=pages.element_size())
    blocks = triton.cdiv(H, sizes["ROWS"])
    parts = divide(T * blocks, K)
    out, partial, sums = results(q_THC, C, parts)
    latent, rotary = (max(16, triton.next_power_of_2(width)) for width in (C, R))
    attend[T, blocks, parts](
        q_THC, q_THR, pages, indices_TK.contiguous(), segment.sequences_T, segment.table_BP, partial, sums, *q_THC.stride()[:2],
        *q_THR.stride()[:2], K, segment.table_BP.shape[1], parts, triton.cdiv(K, parts), scale * LOG2E, H=H, C=C, R=R,
        WIDTH=pages.shape[1], LATENT=latent, ROTARY=rotary, **sizes,
    )  # fmt: skip
    return joined(out, partial, sums)


def refuses(site: Site, machine: Any) -> str | None:
    if site.dtype == "float32" and site.C > 128:
        return "latents of float32 wider than 128 do not fit the registers of a block"
    return unlaunchable(site, machine)


IMPL = Impl(op="sparse_latent_attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"queries": (1,), "before": (8191,), "H": 128, "C": 512, "R": 64, "K": 2048}),)
