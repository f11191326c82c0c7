"""Kernels that show what the interpreter computes, and what torch computes for the same. Run in the interpreter's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from day0.spec.lazy import tl, torch, triton

TYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


@triton.jit
def cast(x, y, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    tl.store(y + at, tl.load(x + at).to(y.dtype.element_ty))


@triton.jit
def multiply_add(a, b, y, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    left, right = tl.load(a + at), tl.load(b + at)
    tl.store(y + at, left * right + left)


@triton.jit
def negate_and_compare(a, b, y, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    left, right = tl.load(a + at), tl.load(b + at)
    tl.store(y + at, tl.where(left < right, -left, right))


@triton.jit
def add_up(x, y, COUNT: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, COUNT)), axis=0))
    tl.store(y + 1, tl.max(tl.load(x + tl.arange(0, COUNT)), axis=0))


@triton.jit
def product(a, b, y, N: tl.constexpr, PRECISION: tl.constexpr):
    place = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + place, tl.dot(tl.load(a + place), tl.load(b + place), input_precision=PRECISION))


@triton.jit
def unsaid(x, y, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    tl.store(y + at, tl.load(x + at, mask=at < COUNT // 2))


def run() -> dict[str, bool]:
    """What was looked at → whether it is as on a device."""
    torch.manual_seed(0)
    found = {}
    for name in TYPES:
        kind = getattr(torch, name)
        codes = torch.arange(1 << 8 * kind.itemsize, dtype=torch.int32).to(torch.int16 if kind.itemsize == 2 else torch.int8).view(kind)
        found[f"{name} as float32"] = equal(made(cast, len(codes), torch.float32, codes), codes.float())
        values = torch.cat((torch.randn(4096), torch.randn(2048) * 100, torch.randn(2048) * 2.0**-7))
        found[f"float32 as {name}"] = equal(made(cast, 8192, kind, values).float(), values.to(kind).float())
    a, b = torch.randn(2, 1024).bfloat16()
    narrow = a * b + a
    found["bfloat16 a · b + a"] = equal(made(multiply_add, 1024, torch.bfloat16, a, b), narrow)
    found["bfloat16 comparison and sign"] = equal(made(negate_and_compare, 1024, torch.bfloat16, a, b), torch.where(a < b, -a, b))
    total = made(add_up, 1024, torch.float32, a, size=2)
    found["bfloat16 sum and maximum"] = torch.allclose(total, torch.stack((a.float().sum(), a.float().max())), rtol=1e-5)
    a, b = torch.randn(2, 32, 32)
    exact = a.double() @ b.double()
    errors = {p: ((made(product, 32, torch.float32, a, b, p, size=(32, 32)) - exact).norm() / exact.norm()).item() for p in ("tf32", "ieee")}
    found["float32 products of tf32"] = 1e-4 < errors["tf32"] < 1e-3 and errors["ieee"] < 1e-6
    narrow = made(product, 32, torch.float32, a.bfloat16(), b.bfloat16(), "ieee", size=(32, 32))
    found["bfloat16 products"] = torch.allclose(narrow, a.bfloat16().float() @ b.bfloat16().float(), rtol=1e-5, atol=1e-5)
    masked = made(unsaid, 64, torch.float32, torch.ones(64))
    found["what a mask leaves out is NaN"] = equal(masked, torch.tensor([1.0] * 32 + [float("nan")] * 32))
    return found


def made(kernel: Any, count: int, dtype: Any, *given: Any, size: Any = None) -> Any:
    """What one program writes."""
    y = torch.empty(size or count, dtype=dtype)
    launch: Callable[..., None] = kernel[(1,)]
    launch(*(one for one in given if not isinstance(one, str)), y, count, *(one for one in given if isinstance(one, str)))
    return y


def equal(found: Any, right: Any) -> bool:
    return bool(((found == right) | (found.isnan() & right.isnan())).all())
