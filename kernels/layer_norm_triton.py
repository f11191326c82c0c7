"""Layer norm in Triton, one pass: several rows a program where they are short, one where it is long. Rows may lie apart."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

LONGEST, TILE = 16384, 1024  # elements of the longest row, and of a program with several rows


@triton.jit
def centre_and_scale(x, weight, bias, y, rows, D, stride, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (at < D)
    value = tl.load(x + row * stride + at, mask=inside, other=0).to(tl.float32)
    centred = tl.where(inside, value - tl.sum(value, axis=1, keep_dims=True) / D, 0)
    scaled = centred * tl.rsqrt(tl.sum(centred * centred, axis=1, keep_dims=True) / D + eps)
    factor = tl.load(weight + at, mask=at < D, other=0).to(tl.float32)
    offset = tl.load(bias + at, mask=at < D, other=0).to(tl.float32)
    tl.store(y + row * D + at, (scaled * factor + offset).to(y.dtype.element_ty), mask=inside)


def launch(x: Any, weight_D: Any, bias_D: Any, eps: float) -> Any:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    D = x.shape[-1]
    x = (x if x.stride(-1) == 1 else x.contiguous()).reshape(-1, D)
    block = triton.next_power_of_2(D)
    each = max(1, TILE // block)
    centre_and_scale[(triton.cdiv(len(x), each),)](
        x, weight_D, bias_D, y, len(x), D, x.stride(0), eps, ROWS=each, BLOCK=block, num_warps=warps(each * block)
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    wide = site.D > LONGEST
    return unlaunchable(site, machine) or (f"a row of {site.D} is longer than {LONGEST}" if wide else None)


IMPL = Impl(op="layer_norm", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 64, "D": 1152}), Build(sizes={"T": 4096, "D": 128}))
