"""Rotation in Triton: a program turns some heads of some tokens, and copies what is not turned. Tokens and heads may lie apart."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

TILE = 1024  # pairs of a program


@triton.jit
def turn_pairs(
    x, cos, sin, y, rows, H, Q, A, x_t, x_h, turn_t, INTERLEAVED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, REST: tl.constexpr
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    pair = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (pair < A)
    t, h = row // H, row % H
    c = tl.load(cos + t * turn_t + pair, mask=inside, other=0)
    s = tl.load(sin + t * turn_t + pair, mask=inside, other=0)
    left = pair * 2 if INTERLEAVED else pair
    right = left + 1 if INTERLEAVED else left + A
    source, target = x + t * x_t + h * x_h, y + row * Q
    first = tl.load(source + left, mask=inside, other=0).to(tl.float32)
    second = tl.load(source + right, mask=inside, other=0).to(tl.float32)
    tl.store(target + left, (first * c - second * s).to(y.dtype.element_ty), mask=inside)
    tl.store(target + right, (second * c + first * s).to(y.dtype.element_ty), mask=inside)
    if REST > 0:
        at = 2 * A + tl.arange(0, REST)[None, :]
        rest = (row < rows) & (at < Q)
        tl.store(target + at, tl.load(source + at, mask=rest, other=0), mask=rest)


def launch(x_THQ: Any, turn: Any, interleaved: bool = False) -> Any:
    x = x_THQ if x_THQ.stride(-1) == 1 else x_THQ.contiguous()
    (T, H, Q), A = x.shape, turn.cos_TA.shape[-1]
    cos, sin = turn.cos_TA.contiguous(), turn.sin_TA.contiguous()
    y = torch.empty((T, H, Q), dtype=x.dtype, device=x.device)
    block, rest = triton.next_power_of_2(A), triton.next_power_of_2(Q - 2 * A) if Q > 2 * A else 0
    each = max(1, TILE // max(block, rest))
    turn_pairs[(triton.cdiv(T * H, each),)](
        x, cos, sin, y, T * H, H, Q, A, x.stride(0), x.stride(1), A if len(cos) > 1 else 0, INTERLEAVED=interleaved, ROWS=each, BLOCK=block,
        REST=rest, num_warps=warps(TILE),
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="rotary", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (
    Build(sizes={"T": 64, "H": 72, "Q": 128, "R": 128}), Build(sizes={"T": 64, "H": 1, "Q": 64, "R": 64, "interleaved": True}),
    Build(sizes={"T": 64, "H": 18, "Q": 256, "R": 64}),
)  # fmt: skip
