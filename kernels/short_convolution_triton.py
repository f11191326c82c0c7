"""Short convolution in Triton: a program takes some tokens of one sequence and some channels, and reads what went before from the state.

The first program of a sequence writes the state anew. Where sequences have as many new tokens each, nothing is copied to the device. Tokens
may lie apart.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

TILE = 1024  # elements of a program


@triton.jit
def inputs_at(x, carried, at, channel, count, REACH, C, x_t, mask):
    """Of one sequence: those of this step from 0 on, those carried before them."""
    new = tl.load(x + at * x_t + channel, mask=mask & (at >= 0) & (at < count), other=0)
    old = tl.load(carried + (REACH + at) * C + channel, mask=mask & (at < 0), other=0).to(new.dtype)
    return tl.where(at < 0, old, new)


@triton.jit
def convolve(
    x, weight, carried, bias, starts, each, y, left, C, x_t, weight_c, J: tl.constexpr, DILATION: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    first, count = b * each, each
    if starts is not None:
        first = tl.load(starts + b)
        count = tl.load(starts + b + 1) - first
    reach: tl.constexpr = (J - 1) * DILATION
    channel = (tl.program_id(2) * BLOCK + tl.arange(0, BLOCK))[None, :]
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    here, before = x + first * x_t, carried + b * reach * C
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    inside = (row < count) & (channel < C)
    for j in tl.static_range(J):
        value = inputs_at(here, before, row - (J - 1 - j) * DILATION, channel, count, reach, C, x_t, inside)
        total += value.to(tl.float32) * tl.load(weight + channel * weight_c + j, mask=channel < C, other=0).to(tl.float32)
    if bias is not None:
        total += tl.load(bias + channel, mask=channel < C, other=0).to(tl.float32)
    tl.store(y + (first + row) * C + channel, (total * tl.sigmoid(total)).to(y.dtype.element_ty), mask=inside)
    if tl.program_id(1) == 0:
        for s in range(reach):
            value = inputs_at(here, before, count - reach + s + row * 0, channel, count, reach, C, x_t, (row == 0) & (channel < C))
            tl.store(left + (b * reach + s) * C + channel + row * 0, value, mask=(row == 0) & (channel < C))


def launch(x_TC: Any, weight_CJ: Any, carried_BSC: Any, queries: tuple[int, ...], bias_C: Any = None, dilation: int = 1) -> Any:
    x = x_TC if x_TC.stride(-1) == 1 else x_TC.contiguous()
    weight = weight_CJ if weight_CJ.stride(-1) == 1 else weight_CJ.contiguous()
    (T, C), J = x.shape, weight.shape[1]
    y = torch.empty((T, C), dtype=x.dtype, device=x.device)
    left = torch.empty((len(queries), (J - 1) * dilation, C), dtype=x.dtype, device=x.device)
    alike = len({*queries}) == 1
    starts = None if alike else torch.tensor([0, *accumulate(queries)], dtype=torch.int64, device=x.device)
    rows = min(16, triton.next_power_of_2(max(queries)))
    block = min(triton.next_power_of_2(C), TILE // rows)
    convolve[(len(queries), triton.cdiv(max(queries), rows), triton.cdiv(C, block))](
        x, weight, carried_BSC.contiguous(), bias_C, starts, queries[0], y, left, C, x.stride(0), weight.stride(0), J=J, DILATION=dilation,
        ROWS=rows, BLOCK=block, num_warps=warps(rows * block),
    )  # fmt: skip
    return y, left


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="short_convolution", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"queries": (1,) * 64, "C": 12288, "J": 4}), Build(sizes={"queries": (4000, 96), "C": 8192, "J": 4, "bias": True}))
