"""Gated RMS norm in Triton, one pass in float32, the gate before or after the norm. Tokens and heads may lie apart."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

LONGEST, TILE = 16384, 1024  # elements of the longest row, and of a program with several rows


@triton.jit
def normalise_gated(
    x, gate, weight, y, rows, H, V, x_t, x_h, gate_t, gate_h, weight_h, eps, SILU: tl.constexpr, GATE_FIRST: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (at < V)
    t, h = row // H, row % H
    value = tl.load(x + t * x_t + h * x_h + at, mask=inside, other=0).to(tl.float32)
    factor = tl.load(gate + t * gate_t + h * gate_h + at, mask=inside, other=0).to(tl.float32)
    factor = tl.sigmoid(factor) * factor if SILU else tl.sigmoid(factor)
    if GATE_FIRST:
        value *= factor
    value *= tl.rsqrt(tl.sum(value * value, axis=1, keep_dims=True) / V + eps)
    value *= tl.load(weight + h * weight_h + at, mask=inside, other=0).to(tl.float32)
    if not GATE_FIRST:
        value *= factor
    tl.store(y + row * V + at, value.to(y.dtype.element_ty), mask=inside)


def launch(x_THV: Any, gate_THV: Any, weight: Any, eps: float, gate: str, gate_first: bool = False) -> Any:
    x, gates = (one if one.stride(-1) == 1 else one.contiguous() for one in (x_THV, gate_THV))
    T, H, V = x.shape
    y = torch.empty((T, H, V), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(V)
    each = max(1, TILE // block)
    normalise_gated[(triton.cdiv(T * H, each),)](
        x, gates, weight.contiguous(), y, T * H, H, V, x.stride(0), x.stride(1), gates.stride(0), gates.stride(1),
        V if weight.dim() == 2 else 0, eps, SILU=gate == "silu", GATE_FIRST=gate_first, ROWS=each, BLOCK=block, num_warps=warps(each * block),
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    wide = site.V > LONGEST
    return unlaunchable(site, machine) or (f"a row of {site.V} is longer than {LONGEST}" if wide else None)


IMPL = Impl(op="gated_rms_norm", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "H": 32, "V": 128}), Build(sizes={"T": 64, "H": 8, "V": 512, "gate": "silu", "gate_first": True}))
