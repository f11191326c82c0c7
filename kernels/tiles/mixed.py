"""A few linear maps of all residual streams of a token, in parts: sums that a second kernel adds, so that few tokens occupy many programs."""

from __future__ import annotations

from typing import Any

from day0.spec.lazy import tl, torch, triton

MANY, PRODUCTS, PROGRAMS = 32, 8192, 512  # tokens from which weights are read less often; products of a step; programs that are enough


@triton.jit
def mix_parts(
    streams, norm, weight, dots, squares, T, M, D, MAPS, stream_t, stream_m, CHUNK, SPLITS, TOKENS: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """dots [parts, T, ROWS] and sums of squares [parts, T]. A part is some columns of one stream; `norm`: less one, or None."""
    part = tl.program_id(1)
    m, first = part // SPLITS, part % SPLITS * CHUNK
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    o = tl.arange(0, ROWS)
    dot = tl.zeros((TOKENS, ROWS), dtype=tl.float32)
    square = tl.zeros((TOKENS,), dtype=tl.float32)
    for start in range(first, tl.minimum(first + CHUNK, D), BLOCK):
        d = start + tl.arange(0, BLOCK)
        inside = (d < D) & (d < first + CHUNK)
        x = tl.load(streams + t[:, None] * stream_t + m * stream_m + d[None, :], mask=(t < T)[:, None] & inside[None, :], other=0).to(tl.float32)
        square += tl.sum(x * x, axis=1)
        if norm is not None:
            x *= 1 + tl.load(norm + m * D + d, mask=inside, other=0).to(tl.float32)[None, :]
        row = tl.load(weight + o[:, None] * (M * D) + m * D + d[None, :], mask=(o < MAPS)[:, None] & inside[None, :], other=0).to(tl.float32)
        dot += tl.sum(x[:, None, :] * row[None, :, :], axis=2)
    tl.store(dots + (part.to(tl.int64) * T + t[:, None]) * ROWS + o[None, :], dot, mask=(t < T)[:, None])
    tl.store(squares + part.to(tl.int64) * T + t, square, mask=t < T)


def step(T: int, rows: int) -> tuple[int, int]:
    """Tokens and columns that are multiplied with `rows` rows at once."""
    tokens = 16 if T >= MANY else 4
    return tokens, min(64, PRODUCTS // (tokens * rows))


def parts(streams_TMD: Any, norm_I: Any, weight_OI: Any) -> tuple[Any, Any, int]:
    """dots [M · splits, T, rows], squares [M · splits, T], and splits, a power of two; rows are those of the weight, padded to one."""
    (T, M, D), maps = streams_TMD.shape, weight_OI.shape[0]
    rows = triton.next_power_of_2(maps)
    tokens, block = step(T, rows)
    blocks = triton.cdiv(T, tokens)
    splits = 1 << max(0, min(8, D // block, PROGRAMS // (blocks * M)).bit_length() - 1)
    dots = torch.empty((M * splits, T, rows), dtype=torch.float32, device=streams_TMD.device)
    squares = torch.empty((M * splits, T), dtype=torch.float32, device=streams_TMD.device)
    chunk = triton.cdiv(triton.cdiv(D, splits), block) * block
    mix_parts[(blocks, M * splits)](
        streams_TMD, norm_I, weight_OI, dots, squares, T, M, D, maps, streams_TMD.stride(0), streams_TMD.stride(1), chunk, splits, TOKENS=tokens,
        ROWS=rows, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return dots, squares, splits


@triton.jit
def summed(dots, squares, t, T, at, first, last, ROWS: tl.constexpr):
    """Sums over the parts from `first` to before `last`, for tokens t [A]: of dots at rows `at` [B], as [A, B], and of squares, as [A, 1]."""
    inside = (t < T)[:, None]
    dot = tl.zeros((t.shape[0], at.shape[0]), dtype=tl.float32)
    square = tl.zeros((t.shape[0], 1), dtype=tl.float32)
    for part in range(first, last):
        place = part * T + t[:, None]
        dot += tl.load(dots + place * ROWS + at[None, :], mask=inside, other=0)
        square += tl.load(squares + place, mask=inside, other=0)
    return dot, square


def tile(M: int, D: int) -> dict[str, int]:
    """Streams, tokens and columns of a program that holds the columns of every stream."""
    streams, block = triton.next_power_of_2(M), min(512, triton.next_power_of_2(D))
    return {"STREAMS": streams, "TOKENS": max(1, 2048 // (block * streams)), "BLOCK": block}
