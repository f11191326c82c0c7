"""Streams into one by weights of every channel in Triton: one kernel for what the normed streams say, one that makes the weights and sums."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.mixed import parts, summed
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site

WIDEST, TOKENS, PRODUCTS = 128, 4, 8192  # width between the maps; tokens of a program, and products of a step of it


@triton.jit
def weigh_channels(
    streams, norm, up, dots, squares, y, T, M, D, C, stream_t, stream_m, splits, eps, ROWS: tl.constexpr, STREAMS: tl.constexpr,
    TOKENS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    c, stream = tl.arange(0, ROWS), tl.arange(0, STREAMS)[None, :]
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    said = tl.zeros((TOKENS, ROWS), dtype=tl.float32)
    lengths = tl.zeros((TOKENS, STREAMS), dtype=tl.float32)
    for m in range(M):
        dot, square = summed(dots, squares, t, T, c, m * splits, (m + 1) * splits, ROWS)
        length = tl.rsqrt(square / D + eps)
        lengths = tl.where(stream == m, length, lengths)
        said += dot * length
    low = said / M * tl.sigmoid(said / M)
    inside = (t < T)[:, None] & (d < D)[None, :]
    total = tl.zeros((TOKENS, BLOCK), dtype=tl.float32)
    for m in range(M):
        row = tl.load(up + (m * D + d)[:, None] * C + c[None, :], mask=(d < D)[:, None] & (c < C)[None, :], other=0).to(tl.float32)
        share = tl.sigmoid(tl.sum(low[:, None, :] * row[None, :, :], axis=2))
        x = tl.load(streams + t[:, None] * stream_t + m * stream_m + d[None, :], mask=inside, other=0).to(tl.float32)
        x *= tl.sum(tl.where(stream == m, lengths, 0), axis=1, keep_dims=True)
        total += share * x * (1 + tl.load(norm + m * D + d, mask=d < D, other=0).to(tl.float32))[None, :]
    tl.store(y + t[:, None] * D + d[None, :], (total / M).to(y.dtype.element_ty), mask=inside)


def launch(streams_TMD: Any, norm_I: Any, down_CI: Any, up_IC: Any, eps: float) -> Any:
    streams = streams_TMD if streams_TMD.stride(-1) == 1 else streams_TMD.contiguous()
    T, M, D = streams.shape
    dots, squares, splits = parts(streams, norm_I, down_CI.contiguous())
    y = torch.empty((T, D), dtype=streams.dtype, device=streams.device)
    rows = dots.shape[2]
    block = min(64, PRODUCTS // (TOKENS * rows))
    weigh_channels[(triton.cdiv(T, TOKENS), triton.cdiv(D, block))](
        streams, norm_I, up_IC.contiguous(), dots, squares, y, T, M, D, len(down_CI), streams.stride(0), streams.stride(1), splits, eps,
        ROWS=rows, STREAMS=triton.next_power_of_2(M), TOKENS=TOKENS, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    wide = site.C > WIDEST
    return unlaunchable(site, machine) or (f"{site.C} between the maps is more than {WIDEST}" if wide else None)


IMPL = Impl(op="hyper_mix", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "M": 4, "D": 4096, "C": 32}),)
