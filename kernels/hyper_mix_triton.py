"""Streams into one by weights of every channel in Triton: one kernel for what the normed streams say, one that
adds its parts, one that makes the weights and sums."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.mixed import parts, step, summed
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site

WIDEST, TOKENS = 128, 16  # width between the maps; tokens of a program that adds parts


@triton.jit
def condense(
    dots, squares, low, lengths, T, M, D, C, splits, eps, ROWS: tl.constexpr, TOKENS: tl.constexpr
):  # fmt: skip
    """low [T, C], between the maps, and lengths [T, M]: what scales each stream to unit root mean square."""
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    c = tl.arange(0, ROWS)
    said = tl.zeros((TOKENS, ROWS), dtype=tl.float32)
    for m in range(M):
        dot, square = summed(dots, squares, t, T, c, m * splits, (m + 1) * splits, ROWS)
        length = tl.rsqrt(square / D + eps)
        said += dot * length
        tl.store(lengths + t[:, None] * M + m, length, mask=(t < T)[:, None])
    said /= M
    tl.store(low + t[:, None] * C + c[None, :], said * tl.sigmoid(said), mask=(t < T)[:, None] & (c < C)[None, :])


@triton.jit
def weigh_channels(
    streams, norm, up, low, lengths, y, T, M, D, C, stream_t, stream_m, ROWS: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, ROWS)
    inside = (t < T)[:, None] & (d < D)[None, :]
    between = tl.load(low + t[:, None] * C + c[None, :], mask=(t < T)[:, None] & (c < C)[None, :], other=0)
    total = tl.zeros((TOKENS, BLOCK), dtype=tl.float32)
    for m in range(M):
        row = tl.load(up + (m * D + d)[:, None] * C + c[None, :], mask=(d < D)[:, None] & (c < C)[None, :], other=0).to(tl.float32)
        share = tl.sigmoid(tl.sum(between[:, None, :] * row[None, :, :], axis=2))
        x = tl.load(streams + t[:, None] * stream_t + m * stream_m + d[None, :], mask=inside, other=0).to(tl.float32)
        x *= tl.load(lengths + t * M + m, mask=t < T, other=0)[:, None]
        total += share * x * (1 + tl.load(norm + m * D + d, mask=d < D, other=0).to(tl.float32))[None, :]
    tl.store(y + t[:, None] * D + d[None, :], (total / M).to(y.dtype.element_ty), mask=inside)


def launch(streams_TMD: Any, norm_I: Any, down_CI: Any, up_IC: Any, eps: float) -> Any:
    streams = streams_TMD if streams_TMD.stride(-1) == 1 else streams_TMD.contiguous()
    (T, M, D), C = streams.shape, len(down_CI)
    dots, squares, splits = parts(streams, norm_I, down_CI.contiguous())
    rows = dots.shape[2]
    low, lengths = (torch.empty((T, width), dtype=torch.float32, device=streams.device) for width in (C, M))
    condense[(triton.cdiv(T, TOKENS),)](
        dots, squares, low, lengths, T, M, D, C, splits, eps, ROWS=rows, TOKENS=TOKENS, num_warps=4
    )  # fmt: skip
    y = torch.empty((T, D), dtype=streams.dtype, device=streams.device)
    tokens, block = step(T, rows)
    weigh_channels[(triton.cdiv(T, tokens), triton.cdiv(D, block))](
        streams, norm_I, up_IC.contiguous(), low, lengths, y, T, M, D, C, streams.stride(0), streams.stride(1), ROWS=rows, TOKENS=tokens,
        BLOCK=block, num_warps=4,
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    wide = site.C > WIDEST
    return unlaunchable(site, machine) or (f"{site.C} between the maps is more than {WIDEST}" if wide else None)


IMPL = Impl(op="hyper_mix", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "M": 4, "D": 4096, "C": 32}),)
