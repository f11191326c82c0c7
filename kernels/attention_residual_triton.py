"""Attention over the residual stream's past in Triton: each vector is read once, by a softmax that runs along.

A program takes one token, several where vectors are short. Tokens may lie apart.
"""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

LONGEST, TILE = 16384, 1024  # elements of the longest vector, and of a program with several tokens


@triton.jit
def mix(stream, norm, query, y, T, S, D, stream_t, stream_s, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    t = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = (t < T) & (at < D)
    wanted = tl.load(norm + at, mask=at < D, other=0).to(tl.float32) * tl.load(query + at, mask=at < D, other=0).to(tl.float32)
    mixed = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    total = tl.zeros((ROWS, 1), dtype=tl.float32)
    top = tl.full((ROWS, 1), float("-inf"), dtype=tl.float32)
    for s in range(S):
        x = tl.load(stream + t * stream_t + s * stream_s + at, mask=inside, other=0).to(tl.float32)
        length = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / D + eps)
        score = tl.sum(x * wanted, axis=1, keep_dims=True) * length
        above = tl.maximum(top, score)
        before, weight = tl.exp(top - above), tl.exp(score - above)
        mixed = mixed * before + weight * x
        total = total * before + weight
        top = above
    tl.store(y + t * D + at, (mixed / total).to(y.dtype.element_ty), mask=inside)


def launch(stream_TSD: Any, norm_D: Any, query_D: Any, eps: float) -> Any:
    stream = stream_TSD if stream_TSD.stride(-1) == 1 else stream_TSD.contiguous()
    T, S, D = stream.shape
    y = torch.empty((T, D), dtype=stream.dtype, device=stream.device)
    block = triton.next_power_of_2(D)
    each = max(1, TILE // block)
    mix[(triton.cdiv(T, each),)](
        stream, norm_D, query_D.view(-1), y, T, S, D, stream.stride(0), stream.stride(1), eps, ROWS=each, BLOCK=block,
        num_warps=warps(each * block),
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    wide = site.D > LONGEST
    return unlaunchable(site, machine) or (f"a vector of {site.D} is longer than {LONGEST}" if wide else None)


IMPL = Impl(op="attention_residual", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "S": 9, "D": 7168}),)
