"""Exact selection: the last score that is still chosen, found digit by digit, then what is above it and the first of what equals it."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site


@triton.jit
def rank(scores, s, S):
    """Scores as unsigned numbers of the same order; equal scores are equal numbers."""
    score = tl.load(scores + s, mask=s < S, other=float("-inf")).to(tl.float32)
    bits = tl.where(score == 0.0, 0.0, score).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.uint32, bitcast=True) ^ 0x80000000


@triton.jit
def select(scores, indices, S, K, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    scores, indices = scores + row * S, indices + row * K
    digits, at = tl.arange(0, 256), tl.arange(0, BLOCK)
    last, want = tl.full([1], 0, tl.uint32), tl.full([1], 0, tl.int32) + K
    for step in tl.static_range(4):
        counts = tl.zeros([256], tl.int32)
        for start in range(0, S, BLOCK):
            s = start + at
            value = rank(scores, s, S)
            alike = s < S
            if step > 0:
                alike = alike & ((value >> (32 - 8 * step)) == (last >> (32 - 8 * step)))
            counts += tl.histogram(((value >> (24 - 8 * step)) & 255).to(tl.int32), 256, mask=alike)
        above = tl.sum(counts, 0) - tl.cumsum(counts, 0)
        digit = tl.sum((above >= want).to(tl.int32), 0)
        want -= tl.sum(tl.where(digits == digit, above, 0), 0)
        last = last | (digit.to(tl.uint32) << (24 - 8 * step))
    found, equals = tl.full([1], 0, tl.int32), tl.full([1], 0, tl.int32)
    for start in range(0, S, BLOCK):
        s = start + at
        value = rank(scores, s, S)
        equal = ((value == last) & (s < S)).to(tl.int32)
        kept = (value > last) | ((equal > 0) & (equals + tl.cumsum(equal, 0) <= want))
        kept = (kept & (s < S) & (value > 0x007FFFFF)).to(tl.int32)
        tl.store(indices + found + tl.cumsum(kept, 0) - 1, s.to(tl.int64), mask=kept > 0)
        found += tl.sum(kept, 0)
        equals += tl.sum(equal, 0)
    for start in range(0, K, BLOCK):
        k = start + at
        tl.store(indices + k, tl.full([BLOCK], -1, tl.int64), mask=(k >= found) & (k < K))


def launch(scores_TS: Any, top_k: int) -> Any:
    T, S = scores_TS.shape
    K = min(top_k, S)
    indices_TK = torch.empty(T, K, dtype=torch.int64, device=scores_TS.device)
    select[(T,)](scores_TS.contiguous(), indices_TK, S, K, BLOCK=min(2048, max(256, triton.next_power_of_2(S))), num_warps=8)
    return indices_TK


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="index_select", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 4, "S": 8192, "K": 2048}),)
