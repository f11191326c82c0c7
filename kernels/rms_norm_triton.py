"""RMS norm in Triton, one pass: several rows a program where they are short, one where it is long. Rows may lie apart."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

LONGEST, TILE = 16384, 1024  # elements of the longest row, and of a program with several rows


@triton.jit
def normalise(x, weight, y, rows, H, D, stride_t, stride_h, eps, PLUS_ONE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (at < D)
    value = tl.load(x + row // H * stride_t + row % H * stride_h + at, mask=inside, other=0).to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, axis=1, keep_dims=True) / D + eps)
    if weight is not None:
        factor = tl.load(weight + at, mask=at < D, other=0).to(tl.float32)
        value *= factor + 1 if PLUS_ONE else factor
    tl.store(y + row * D + at, value.to(y.dtype.element_ty), mask=inside)


def launch(x: Any, weight_D: Any, eps: float, plus_one: bool = False) -> Any:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    D = x.shape[-1]
    x = x if x.stride(-1) == 1 else x.contiguous()
    x_THD = x if x.dim() == 3 else x.reshape(-1, 1, D)
    rows, H, block = x_THD.shape[0] * x_THD.shape[1], x_THD.shape[1], triton.next_power_of_2(D)
    each = max(1, TILE // block)
    normalise[(triton.cdiv(rows, each),)](
        x_THD, weight_D, y, rows, H, D, x_THD.stride(0), x_THD.stride(1), eps, PLUS_ONE=plus_one, ROWS=each, BLOCK=block,
        num_warps=warps(each * block),
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    wide = site.D > LONGEST
    return unlaunchable(site, machine) or (f"a row of {site.D} is longer than {LONGEST}" if wide else None)


IMPL = Impl(op="rms_norm", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "D": 7168}), Build(sizes={"T": 4096, "D": 128, "weight": "plus one"}))
