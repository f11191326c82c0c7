"""Logarithms of decays in Triton, elementwise in float32. Tokens and heads may lie apart."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.softplus import softplus
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

TILE = 1024  # elements of a program


@triton.jit
def decay_rate(x, rate, bias, y, rows, H, Q, x_t, x_h, floor, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (at < Q)
    t, h = row // H, row % H
    value = tl.load(x + t * x_t + h * x_h + at, mask=inside, other=0).to(tl.float32)
    value += tl.load(bias + h * Q + at, mask=inside, other=0).to(tl.float32)
    speed = tl.exp(tl.load(rate + h, mask=row < rows, other=0).to(tl.float32))
    decay = -speed * softplus(value) if floor is None else floor * tl.sigmoid(speed * value)
    tl.store(y + row * Q + at, decay, mask=inside)


def launch(x_THQ: Any, rate_log_H: Any, bias_HQ: Any, floor: float | None = None) -> Any:
    x = x_THQ if x_THQ.stride(-1) == 1 else x_THQ.contiguous()
    T, H, Q = x.shape
    y = torch.empty((T, H, Q), dtype=torch.float32, device=x.device)
    block = min(TILE, triton.next_power_of_2(Q))
    rows = TILE // block
    decay_rate[(triton.cdiv(T * H, rows), triton.cdiv(Q, block))](
        x, rate_log_H.contiguous(), bias_HQ.contiguous(), y, T * H, H, Q, x.stride(0), x.stride(1), floor, ROWS=rows, BLOCK=block,
        num_warps=warps(TILE),
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="log_decay", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "H": 32, "Q": 1}), Build(sizes={"T": 64, "H": 32, "Q": 128, "floor": -5.0}))
