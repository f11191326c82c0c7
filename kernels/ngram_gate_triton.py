"""Looked-up values weighed for every stream in Triton: a program takes one stream of a token, several where rows are short.

Tokens may lie apart.
"""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

LONGEST, TILE = 8192, 1024  # elements of the longest row, and of a program with several rows


@triton.jit
def normed(x, norm, at, inside, D, eps):
    """Rows of unit root mean square, by one plus the weight."""
    factor = 1 + tl.load(norm + at, mask=inside, other=0).to(tl.float32)
    return x * tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / D + eps) * factor


@triton.jit
def agree(
    streams, keys, value, query_norm, key_norm, value_norm, weighed, y, rows, M, D, stream_t, stream_m, key_t, key_m, value_t, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    d = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (d < D)
    t, m = row // M, row % M
    at = m * D + d
    stream = tl.load(streams + t * stream_t + m * stream_m + d, mask=inside, other=0).to(tl.float32)
    key = tl.load(keys + t * key_t + m * key_m + d, mask=inside, other=0).to(tl.float32)
    products = normed(key, key_norm, at, inside, D, eps) * normed(stream, query_norm, at, inside, D, eps)
    gate = tl.sum(products, axis=1, keep_dims=True) * tl.rsqrt(D * 1.0)
    size = tl.sqrt(tl.where(tl.abs(gate) < 1e-6, 1e-6, tl.abs(gate)))
    share = tl.sigmoid(tl.where(gate > 0, size, tl.where(gate < 0, -size, gate)))
    result = share * tl.load(value + t * value_t + d, mask=inside, other=0).to(tl.float32)
    tl.store(weighed + row * D + d, result.to(weighed.dtype.element_ty), mask=inside)
    tl.store(y + row * D + d, normed(result, value_norm, at, inside, D, eps).to(y.dtype.element_ty), mask=inside)


def launch(
    streams_TMD: Any, keys_TMD: Any, value_TD: Any, query_norm_I: Any, key_norm_I: Any, value_norm_I: Any, eps: float
) -> Any:  # fmt: skip
    streams, keys, value = (one if one.stride(-1) == 1 else one.contiguous() for one in (streams_TMD, keys_TMD, value_TD))
    T, M, D = streams.shape
    weighed, y = (torch.empty((T, M, D), dtype=streams.dtype, device=streams.device) for _ in range(2))
    block = triton.next_power_of_2(D)
    each = max(1, TILE // block)
    agree[(triton.cdiv(T * M, each),)](
        streams, keys, value, query_norm_I, key_norm_I, value_norm_I, weighed, y, T * M, M, D, streams.stride(0), streams.stride(1),
        keys.stride(0), keys.stride(1), value.stride(0), eps, ROWS=each, BLOCK=block, num_warps=warps(each * block),
    )  # fmt: skip
    return weighed, y


def refuses(site: Site, machine: Any) -> str | None:
    wide = site.D > LONGEST
    return unlaunchable(site, machine) or (f"a row of {site.D} is longer than {LONGEST}" if wide else None)


IMPL = Impl(op="ngram_gate", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "M": 4, "D": 4096}),)
