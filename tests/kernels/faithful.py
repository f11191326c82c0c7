"""Triton's interpreter with the arithmetic of narrow floats that compiled kernels have.

The interpreter of Triton 3.9 keeps bfloat16 and 8-bit floats as whole numbers of their bits and computes with those: products, sums and
comparisons are of the codes, and conversions truncate. Here they are widened to float32 first and rounded to nearest even afterwards, by
torch. What a masked load does not read is NaN where the kernel does not say what it is, products of float32 are of tf32 unless the kernel
asks for more, and an address outside the tensors of the launch is an error. To be installed before kernels are launched, in a process that
has had TRITON_INTERPRET=1 in its environment before Triton was imported.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, ReduceScanOpInterface, TensorHandle

NARROW = {
    tl.bfloat16: torch.bfloat16, tl.float8e4nv: torch.float8_e4m3fn, tl.float8e4b8: torch.float8_e4m3fnuz, tl.float8e5: torch.float8_e5m2,
    tl.float8e5b16: torch.float8_e5m2fnuz,
}  # fmt: skip


def wide(handle: TensorHandle) -> np.ndarray:
    """What a tensor holds, in a type that numpy computes with."""
    kind = NARROW.get(handle.dtype.scalar)
    if kind is None:
        return handle.data
    codes = np.array(handle.data, dtype=f"u{kind.itemsize}")
    return torch.from_numpy(codes.view(f"i{kind.itemsize}")).view(kind).float().numpy()


def stored(values: np.ndarray, dtype: Any) -> TensorHandle:
    """Values rounded to the type that they are kept in; truths stay truths."""
    kind = NARROW.get(dtype.scalar)
    if kind is None or values.dtype == np.bool_:
        return TensorHandle(values, tl.int1 if values.dtype == np.bool_ else dtype.scalar)
    codes = torch.from_numpy(np.array(values, dtype=np.float32)).to(kind).view(getattr(torch, f"int{8 * kind.itemsize}"))
    return TensorHandle(codes.numpy().view(f"u{kind.itemsize}"), dtype.scalar)


def tf32(values: np.ndarray) -> np.ndarray:
    """float32 rounded to nearest even at ten bits of mantissa."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


class Faithful(InterpreterBuilder):
    """Builds the same numbers as compiled code."""

    spans: tuple[np.ndarray, np.ndarray]  #: first addresses and ends of the memory that this launch was given, in order

    def require_inside(self, ptrs: TensorHandle, mask: TensorHandle) -> None:
        """An AssertionError for an address that is read or written and is in no tensor of the launch."""
        addresses = np.broadcast_to(ptrs.data, np.broadcast_shapes(ptrs.data.shape, mask.data.shape))[np.broadcast_to(mask.data, ptrs.data.shape)]
        starts, ends = self.spans
        place = np.searchsorted(starts, addresses, side="right") - 1
        size = interpreter._get_np_dtype(ptrs.get_element_ty()).itemsize
        assert ((place >= 0) & (addresses + np.uint64(size) <= ends[place])).all(), "an address is outside the tensors of the launch"

    def cast_impl(self, src: TensorHandle, dst_type: Any) -> TensorHandle:
        if dst_type.scalar in NARROW:
            return stored(wide(src).astype(np.float32), dst_type)
        with np.errstate(all="ignore"):
            return TensorHandle(wide(src).astype(interpreter._get_np_dtype(dst_type)), dst_type.scalar)

    def create_fp_to_fp(self, src: TensorHandle, dst_type: Any, rounding_mode: Any) -> TensorHandle:
        assert rounding_mode in (None, interpreter._ir.ROUNDING_MODE.RTNE), "only rounding to nearest is known here"
        return self.cast_impl(src, dst_type)

    def binary_op(self, lhs: TensorHandle, rhs: TensorHandle, op: Any) -> TensorHandle:
        with np.errstate(all="ignore"):
            if lhs.dtype.scalar not in NARROW:
                return super().binary_op(lhs, rhs, op)
            return stored(op(wide(lhs), wide(rhs)), lhs.dtype)

    def unary_op(self, arg: TensorHandle, op: Any) -> TensorHandle:
        with np.errstate(all="ignore"):
            return stored(op(wide(arg)), arg.dtype)

    def create_fabs(self, arg: TensorHandle) -> TensorHandle:
        return self.unary_op(arg, np.abs)

    def create_rsqrt(self, arg: TensorHandle) -> TensorHandle:
        return self.unary_op(arg, lambda x: 1 / np.sqrt(x))

    def create_erf(self, arg: TensorHandle) -> TensorHandle:
        return self.unary_op(arg, lambda x: torch.erf(torch.from_numpy(np.array(x))).numpy())

    def create_fma(self, x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
        if z.dtype.scalar not in NARROW:
            return super().create_fma(x, y, z)
        return stored(np.multiply(wide(x), wide(y), dtype=np.float64) + wide(z), z.dtype)

    def create_clampf(self, arg: TensorHandle, lo: TensorHandle, hi: TensorHandle, propagate_nans: Any) -> TensorHandle:
        if arg.dtype.scalar not in NARROW:
            return super().create_clampf(arg, lo, hi, propagate_nans)
        return stored(np.clip(wide(arg), wide(lo), wide(hi)), arg.dtype)

    def create_dot(self, a: TensorHandle, b: TensorHandle, d: TensorHandle, input_precision: Any, *how: Any) -> TensorHandle:
        left, right = wide(a), wide(b)
        if left.dtype == np.float32 and a.dtype.scalar not in NARROW and input_precision == interpreter._ir.INPUT_PRECISION.TF32:
            left, right = tf32(left), tf32(right)
        return TensorHandle(np.matmul(left, right, dtype=d.data.dtype) + d.data, d.dtype.scalar)

    def create_masked_load(self, ptrs: TensorHandle, mask: TensorHandle, other: Any, *how: Any) -> TensorHandle:
        self.require_inside(ptrs, mask)
        if other is None:
            kind = ptrs.get_element_ty()
            empty = np.full(ptrs.data.shape, 0xFF, dtype=np.uint8).repeat(interpreter._get_np_dtype(kind).itemsize)
            filled = empty.view(interpreter._get_np_dtype(kind)).reshape(ptrs.data.shape)
            other = TensorHandle(filled, kind)
        return super().create_masked_load(ptrs, mask, other, *how)

    def create_masked_store(self, ptrs: TensorHandle, value: TensorHandle, mask: TensorHandle, *how: Any) -> Any:
        self.require_inside(ptrs, mask)
        return super().create_masked_store(ptrs, value, mask, *how)

    def create_atomic_rmw(self, kind: Any, ptr: TensorHandle, value: TensorHandle, mask: TensorHandle, *how: Any) -> TensorHandle:
        self.require_inside(ptr, mask)
        return super().create_atomic_rmw(kind, ptr, value, mask, *how)


def spans(arguments: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """First addresses and ends of the memory of tensors; what touches or overlaps is one."""
    found: list[list[int]] = []
    for start, end in sorted(extent(one) for one in arguments if isinstance(one, torch.Tensor) and one.numel()):
        if found and start <= found[-1][1]:
            found[-1][1] = max(end, found[-1][1])
        else:
            found.append([start, end])
    edges = np.array(found or [[0, 0]], dtype=np.uint64)
    return edges[:, 0], edges[:, 1]


def extent(x: torch.Tensor) -> tuple[int, int]:
    """Addresses of the first element and of the end of the last one."""
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def promoted(value: Any) -> Any:
    """As reductions and scans take it in compiled code."""
    if not isinstance(value, tl.core.tensor) or value.dtype not in NARROW:
        return value
    return tl.core.tensor(TensorHandle(wide(value.handle), tl.float32), tl.block_type(tl.float32, list(value.shape)) if value.shape else tl.float32)


def install() -> None:
    """For the rest of this process."""
    assert "JIT" not in type(tl.sum).__name__, "TRITON_INTERPRET=1 must be set before Triton is imported"
    builder = interpreter.interpreter_builder
    builder.__class__ = Faithful
    precisions = (*builder.options.allowed_dot_input_precisions, "bf16x3", "bf16x6")  # which compiled kernels have on every target
    builder.options = replace(builder.options, allowed_dot_input_precisions=precisions)
    interpreter._mxfp_value_handle_to_float32 = lambda h: interpreter._e2m1_to_f32(h.data) if h.dtype == tl.uint8 else wide(h)
    plain, call = ReduceScanOpInterface.apply, GridExecutor.__call__

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [*args, *kwargs.values()]
        interpreter.interpreter_builder.spans = spans([*given, *chain.from_iterable(one for one in given if isinstance(one, tuple))])
        call(self, *args, **kwargs)

    def apply(self: Any, given: Any) -> Any:
        with np.errstate(all="ignore"):
            return plain(self, tuple(map(promoted, given)) if isinstance(given, tuple) else promoted(given))

    ReduceScanOpInterface.apply, GridExecutor.__call__ = apply, launch
    patch_once()


def patch_once() -> None:
    """The language's functions become the interpreter's for good, instead of anew at every call of a function: nine tenths of the time."""
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda _: interpreter._LangPatchScope()
