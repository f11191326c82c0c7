"""Gated activation in Triton, one pass in float32: every function, clamp and offset. Rows of gate and up may lie apart."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.activated import constants, gated
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

TILE = 1024  # elements of a program


@triton.jit
def gate_and_up(
    gate, up, y, T, F, gate_stride, up_stride, CHOSEN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < T) & (at < F)
    left = tl.load(gate + row * gate_stride + at, mask=inside, other=0).to(tl.float32)
    right = tl.load(up + row * up_stride + at, mask=inside, other=0).to(tl.float32)
    tl.store(y + row * F + at, gated(left, right, CHOSEN).to(y.dtype.element_ty), mask=inside)


def launch(gate_TF: Any, up_TF: Any, activation: Any) -> Any:
    gate, up = (x if x.stride(-1) == 1 else x.contiguous() for x in (gate_TF, up_TF))
    T, F = gate.shape
    y = torch.empty((T, F), dtype=gate.dtype, device=gate.device)
    block = min(TILE, triton.next_power_of_2(F))
    rows = TILE // block
    gate_and_up[(triton.cdiv(T, rows), triton.cdiv(F, block))](
        gate, up, y, T, F, gate.stride(0), up.stride(0), CHOSEN=constants(activation), ROWS=rows, BLOCK=block, num_warps=warps(TILE)
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="gated_activation", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "F": 2048}), Build(sizes={"T": 64, "F": 2880, "case": 4}))
