"""Products with packed weights: how the formats lie in memory, told to `packed.c`."""

import ctypes
from typing import Any

from day0.kernels.c.build import library, threads
from day0.spec.lazy import functional, torch

FORMATS = ("mxfp4", "nvfp4", "int4", "fp8_block", "mxfp8", "fp8")  # that can be read as they lie
MANY = 16  # tokens from which rows are decoded and multiplied by torch
ROWS = 256  # of them at once, so that they stay in the cache
E2M1, INT4, E4M3 = range(3)
E8M0, E4M3_SCALES, BFLOAT16, FLOAT16, FLOAT32 = range(5)
NUMBERS = ("rows", "columns", "code_stride", "groups", "group", "tall", "codes_kind", "scales_kind")


class Matrix(ctypes.Structure):
    """`matrix` of packed.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("codes", "scales", "zeros", "group_of")), *((name, ctypes.c_int64) for name in NUMBERS),
        ("factor", ctypes.c_float),
    )  # fmt: skip


def readable(form: str) -> bool:
    """Whether weights of a format, or of several joined by +, can be read as they lie; plain ones among them are multiplied by torch."""
    names = set(form.split("+"))
    return names != {"plain"} and names <= {*FORMATS, "plain"}


def times(x_TI: Any, weight: Any) -> Any:
    """x · weightᵀ → [T, O] in float32, for float32 `x_TI` and a weight that is plain or packed."""
    if isinstance(weight, torch.Tensor):
        return functional.linear(x_TI.to(weight.dtype), weight).float()
    matrix = described(weight)
    if weight.turned:
        return _turned(x_TI, matrix)
    if x_TI.shape[0] > MANY:
        return _many(x_TI.to(weight.dtype), matrix)
    x_TI = x_TI.contiguous()
    y_TO = torch.empty(x_TI.shape[0], matrix.rows, dtype=torch.float32)
    done = library().product(
        ctypes.byref(matrix), ctypes.c_void_p(x_TI.data_ptr()), ctypes.c_int64(x_TI.shape[0]), ctypes.c_void_p(y_TO.data_ptr()), threads()
    )  # fmt: skip
    if not done:
        raise MemoryError(f"{4 * x_TI.numel()} bytes for the input of a product")
    return y_TO


def _many(x_TI: Any, matrix: Matrix) -> Any:
    """Some rows of the weight at a time, in the type of `x_TI`."""
    y_TO = torch.empty(x_TI.shape[0], matrix.rows, dtype=torch.float32)
    for first, w_RI in _stripes(matrix, x_TI.dtype):
        y_TO[:, first : first + len(w_RI)] = functional.linear(x_TI, w_RI)
    return y_TO


def _turned(x_TI: Any, matrix: Matrix) -> Any:
    """Of a weight whose rows are inputs."""
    y_TO = torch.zeros(x_TI.shape[0], matrix.columns, dtype=torch.float32)
    for first, w_RO in _stripes(matrix, torch.float32):
        y_TO.addmm_(x_TI[:, first : first + len(w_RO)], w_RO)
    return y_TO


def _stripes(matrix: Matrix, dtype: Any) -> Any:
    """(first row, rows [R, columns]), each valid until the next one is asked for."""
    narrow = dtype == torch.bfloat16
    room = torch.empty(min(ROWS, matrix.rows), matrix.columns, dtype=torch.bfloat16 if narrow else torch.float32)
    for first in range(0, matrix.rows, ROWS):
        count = min(ROWS, matrix.rows - first)
        library().decode(
            ctypes.byref(matrix), ctypes.c_int64(first), ctypes.c_int64(count), int(narrow), ctypes.c_void_p(room.data_ptr()), threads()
        )  # fmt: skip
        yield first, room[:count].to(dtype)


def described(weight: Any) -> Matrix:
    """A packed matrix as the library knows it; `weight` must live as long."""
    rows, columns = reversed(weight.shape) if weight.turned else weight.shape
    data, scale = weight.parts["data"], weight.parts["scale"]
    assert data.is_contiguous() and scale.is_contiguous()
    four = weight.format in ("mxfp4", "nvfp4", "int4")
    tall, group = weight.block if len(weight.block) == 2 else (1, columns)
    matrix = Matrix(
        codes=data.data_ptr(), scales=scale.data_ptr(), rows=rows, columns=columns, code_stride=data.nbytes // rows,
        groups=-(-columns // group), group=group, tall=tall, codes_kind=(INT4 if weight.format == "int4" else E2M1) if four else E4M3,
        scales_kind=_scales_kind(scale.dtype), factor=1.0,
    )  # fmt: skip
    if weight.format == "fp8":
        matrix.tall = rows if scale.numel() == 1 else 1
    if "factor" in weight.parts:
        matrix.factor = weight.parts["factor"].item()
    if "divisor" in weight.parts:
        matrix.factor = 1 / weight.parts["divisor"].item()
    if "zeros" in weight.parts:
        matrix.zeros = weight.parts["zeros"].data_ptr()
    if "group_of" in weight.parts and bool((weight.parts["group_of"] >= 0).all()):
        matrix.kept = weight.parts["group_of"].int()
        matrix.group_of = matrix.kept.data_ptr()
    return matrix


def _scales_kind(dtype: Any) -> int:
    kinds = {
        torch.uint8: E8M0, torch.float8_e8m0fnu: E8M0, torch.float8_e4m3fn: E4M3_SCALES, torch.bfloat16: BFLOAT16,
        torch.float16: FLOAT16, torch.float32: FLOAT32,
    }  # fmt: skip
    return kinds[dtype]
