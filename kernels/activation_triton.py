"""Activation in Triton, one pass in float32. Rows may lie apart."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.activated import activated, constants
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

TILE = 1024  # elements of a program


@triton.jit
def elementwise(x, y, T, F, stride, CHOSEN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < T) & (at < F)
    value = tl.load(x + row * stride + at, mask=inside, other=0).to(tl.float32)
    tl.store(y + row * F + at, activated(value, CHOSEN).to(y.dtype.element_ty), mask=inside)


def launch(x_TF: Any, activation: Any) -> Any:
    y = torch.empty(x_TF.shape, dtype=x_TF.dtype, device=x_TF.device)
    F = x_TF.shape[-1]
    x = (x_TF if x_TF.stride(-1) == 1 else x_TF.contiguous()).reshape(-1, F)
    block = min(TILE, triton.next_power_of_2(F))
    rows = TILE // block
    elementwise[(triton.cdiv(len(x), rows), triton.cdiv(F, block))](
        x, y, len(x), F, x.stride(0), CHOSEN=constants(activation), ROWS=rows, BLOCK=block, num_warps=warps(TILE)
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="activation", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "F": 8192, "kind": "relu2"}), Build(sizes={"T": 64, "F": 4304, "kind": "gelu"}))
