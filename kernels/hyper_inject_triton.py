"""A result into streams in Triton: one kernel for what the normed streams say, one for the sum."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.mixed import parts, summed, tile
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site


@triton.jit
def inject(
    streams, y, dots, squares, out, T, D, stream_t, stream_m, y_t, eps, splits, M, ROWS: tl.constexpr, STREAMS: tl.constexpr, TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    m = tl.arange(0, STREAMS)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    said = tl.zeros((TOKENS, STREAMS), dtype=tl.float32)
    for stream in range(M):
        dot, square = summed(dots, squares, t, T, tl.minimum(m, M - 1), stream * splits, (stream + 1) * splits, ROWS)
        said += dot * tl.rsqrt(square / D + eps)
    inside = (t < T)[:, None] & (d < D)[None, :]
    within = inside[:, None, :] & (m < M)[None, :, None]
    place = t[:, None, None] * stream_t + m[None, :, None] * stream_m + d[None, None, :]
    x = tl.load(streams + place, mask=within, other=0).to(tl.float32)
    added = tl.load(y + t[:, None] * y_t + d[None, :], mask=inside, other=0).to(tl.float32)
    mixed = x + 2 * tl.sigmoid(said / M)[:, :, None] * added[:, None, :]
    place = (t[:, None, None] * M + m[None, :, None]) * D + d[None, None, :]
    tl.store(out + place, mixed.to(out.dtype.element_ty), mask=within)


def launch(streams_TMD: Any, y_TD: Any, norm_I: Any, inject_MI: Any, eps: float) -> Any:
    streams, y = (one if one.stride(-1) == 1 else one.contiguous() for one in (streams_TMD, y_TD))
    T, M, D = streams.shape
    dots, squares, splits = parts(streams, norm_I, inject_MI.contiguous())
    out = torch.empty((T, M, D), dtype=streams.dtype, device=streams.device)
    held = tile(M, D)
    inject[(triton.cdiv(T, held["TOKENS"]), triton.cdiv(D, held["BLOCK"]))](
        streams, y, dots, squares, out, T, D, streams.stride(0), streams.stride(1), y.stride(0), eps, splits, M, ROWS=dots.shape[2],
        **held, num_warps=4,
    )  # fmt: skip
    return out


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="hyper_inject", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "M": 4, "D": 4096}),)
