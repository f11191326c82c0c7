"""One into streams in Triton: a kernel for what the streams say, one that makes their mix doubly stochastic, one that applies it."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.mixed import parts, summed, tile
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site

TOKENS = 16  # of a program that balances their mixes


@triton.jit
def doubly_stochastic(logits, valid, iterations, floor):
    """Sinkhorn's iterations of [tokens, streams, streams], as `day0/ops/hyper_expand.py` has them; zero where there is no stream."""
    comb = tl.where(valid, tl.exp(logits - tl.max(tl.where(valid, logits, float("-inf")), axis=2, keep_dims=True)), 0)
    comb = tl.where(valid, comb / tl.sum(comb, axis=2, keep_dims=True) + floor, 0)
    comb = tl.where(valid, comb / (tl.sum(comb, axis=1, keep_dims=True) + floor), 0)
    for _ in range(iterations - 1):
        comb = tl.where(valid, comb / (tl.sum(comb, axis=2, keep_dims=True) + floor), 0)
        comb = tl.where(valid, comb / (tl.sum(comb, axis=1, keep_dims=True) + floor), 0)
    return comb


@triton.jit
def balance(
    dots, squares, base, scale, factors, T, M, width, parts, iterations, floor, eps, ROWS: tl.constexpr, STREAMS: tl.constexpr,
    TOKENS: tl.constexpr,
):  # fmt: skip
    """factors [T, M + M · M]: post, then comb."""
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    m, pair = tl.arange(0, STREAMS), tl.arange(0, STREAMS * STREAMS)
    place, known = t[:, None] * (M + M * M), (t < T)[:, None]
    dot, square = summed(dots, squares, t, T, tl.minimum(m, M - 1), 0, parts, ROWS)
    length = tl.rsqrt(square / width + eps)
    post = 2 * tl.sigmoid(dot * length * tl.load(scale).to(tl.float32) + tl.load(base + m, mask=m < M, other=0).to(tl.float32)[None, :])
    tl.store(factors + place + m[None, :], post, mask=known & (m < M)[None, :])
    real = (pair // STREAMS < M) & (pair % STREAMS < M)
    at = tl.where(real, M + pair // STREAMS * M + pair % STREAMS, 0)
    dot, _ = summed(dots, squares, t, T, at, 0, parts, ROWS)
    said = dot * length * tl.load(scale + 1).to(tl.float32) + tl.load(base + at).to(tl.float32)[None, :]
    valid = tl.reshape(tl.broadcast_to(real[None, :], (TOKENS, STREAMS * STREAMS)), (TOKENS, STREAMS, STREAMS))
    comb = doubly_stochastic(tl.reshape(said, (TOKENS, STREAMS, STREAMS)), valid, iterations, floor)
    tl.store(factors + place + at[None, :], tl.reshape(comb, (TOKENS, STREAMS * STREAMS)), mask=known & real[None, :])


@triton.jit
def spread(
    streams, y, factors, out, T, M, D, stream_t, stream_m, y_t, STREAMS: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    n = tl.arange(0, STREAMS)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, known = (t < T)[:, None] & (d < D)[None, :], (t < T)[:, None] & (n < M)[None, :]
    row = factors + t[:, None] * (M + M * M) + n[None, :]
    added = tl.load(y + t[:, None] * y_t + d[None, :], mask=inside, other=0).to(tl.float32)
    mixed = tl.load(row, mask=known, other=0)[:, :, None] * added[:, None, :]
    for m in range(M):
        x = tl.load(streams + t[:, None] * stream_t + m * stream_m + d[None, :], mask=inside, other=0).to(tl.float32)
        mixed += tl.load(row + M + m * M, mask=known, other=0)[:, :, None] * x[:, None, :]
    place = (t[:, None, None] * M + n[None, :, None]) * D + d[None, None, :]
    tl.store(out + place, mixed.to(out.dtype.element_ty), mask=inside[:, None, :] & (n < M)[None, :, None])


def launch(
    streams_TMD: Any, y_TD: Any, weight_OX: Any, base_O: Any, scale: Any, iterations: int, floor: float, eps: float
) -> Any:  # fmt: skip
    streams, y = (one if one.stride(-1) == 1 else one.contiguous() for one in (streams_TMD, y_TD))
    T, M, D = streams.shape
    dots, squares, _ = parts(streams, None, weight_OX.contiguous())
    factors = torch.empty((T, M + M * M), dtype=torch.float32, device=streams.device)
    held = tile(M, D)
    balance[(triton.cdiv(T, TOKENS),)](
        dots, squares, base_O, scale, factors, T, M, M * D, len(dots), iterations, floor, eps, ROWS=dots.shape[2], STREAMS=held["STREAMS"],
        TOKENS=TOKENS, num_warps=1,
    )  # fmt: skip
    out = torch.empty((T, M, D), dtype=streams.dtype, device=streams.device)
    spread[(triton.cdiv(T, held["TOKENS"]), triton.cdiv(D, held["BLOCK"]))](
        streams, y, factors, out, T, M, D, streams.stride(0), streams.stride(1), y.stride(0), **held, num_warps=4
    )  # fmt: skip
    return out


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="hyper_expand", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 8, "M": 4, "D": 4096, "iterations": 20}), Build(sizes={"T": 4096, "M": 4, "D": 4096, "iterations": 20}))
