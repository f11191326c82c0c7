"""Streams into one in Triton: one kernel for what the streams say, one for their weighed sum."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.mixed import parts, summed, tile
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site


@triton.jit
def weigh_streams(
    streams, dots, squares, base, scale, y, T, D, stream_t, stream_m, floor, eps, parts, M, ROWS: tl.constexpr, STREAMS: tl.constexpr,
    TOKENS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)
    m = tl.arange(0, STREAMS)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    dot, square = summed(dots, squares, t, T, tl.minimum(m, M - 1), 0, parts, ROWS)
    said = dot * tl.rsqrt(square / (M * D) + eps) * tl.load(scale).to(tl.float32) + tl.load(base + tl.minimum(m, M - 1)).to(tl.float32)[None, :]
    inside = (t < T)[:, None] & (d < D)[None, :]
    place = t[:, None, None] * stream_t + m[None, :, None] * stream_m + d[None, None, :]
    x = tl.load(streams + place, mask=inside[:, None, :] & (m < M)[None, :, None], other=0).to(tl.float32)
    mixed = tl.sum((tl.sigmoid(said) + floor)[:, :, None] * x, axis=1)
    tl.store(y + t[:, None] * D + d[None, :], mixed.to(y.dtype.element_ty), mask=inside)


def launch(streams_TMD: Any, weight_MX: Any, base_M: Any, scale: Any, floor: float, eps: float) -> Any:
    streams = streams_TMD if streams_TMD.stride(-1) == 1 else streams_TMD.contiguous()
    T, M, D = streams.shape
    dots, squares, _ = parts(streams, None, weight_MX.contiguous())
    y = torch.empty((T, D), dtype=streams.dtype, device=streams.device)
    held = tile(M, D)
    weigh_streams[(triton.cdiv(T, held["TOKENS"]), triton.cdiv(D, held["BLOCK"]))](
        streams, dots, squares, base_M, scale, y, T, D, streams.stride(0), streams.stride(1), floor, eps, len(dots), M, ROWS=dots.shape[2],
        **held, num_warps=4,
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="hyper_collapse", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "M": 4, "D": 4096}),)
