"""The tensors that a weight is stored as in each format: what `formats/` recognise, told the other way round."""

from collections.abc import Callable, Iterator, Mapping

from day0.checkpoint.scheme import Packing
from day0.spec.dtype import size
from day0.spec.format import Stored, TensorHeader

Shape = tuple[int, ...]
Part = tuple[str, str, str, Shape]  # part of the format, ending of the tensor's name, type, shape
FILE = "config.json"  # that the sizes follow from


def store(name: str, shape: Shape, packing: Packing, dtype: str) -> Stored:
    """A weight `name` of this shape as a release would hold it; `dtype` is the type of what is not packed. Its bytes are nowhere."""
    parts: dict[str, TensorHeader] = {}
    packed = packing.format in LAYOUTS and len(shape) >= 2 and 0 not in shape
    for part, ending, kind, extent in LAYOUTS[packing.format](shape, packing.block) if packed else _plain(shape, dtype):
        count = 1
        for side in extent:
            count *= side
        parts[part] = TensorHeader(name + ending, kind, extent, FILE, 0, size(kind, count))
    return Stored(name, packing.format if packed else "plain", shape, parts, packing.block if packed else ())


def _plain(shape: Shape, dtype: str) -> Iterator[Part]:
    yield "data", "", dtype, shape


def _fp8(shape: Shape, _block: Shape) -> Iterator[Part]:
    yield "data", "", "F8_E4M3", shape
    yield "scale", "_scale", "F32", shape[:-2]


def _fp8_block(shape: Shape, block: Shape) -> Iterator[Part]:
    *stack, rows, columns = shape
    yield "data", "", "F8_E4M3", shape
    yield "scale", "_scale_inv", "F32", (*stack, _up(rows, block[0]), _up(columns, block[1]))


def _mxfp4(shape: Shape, block: Shape) -> Iterator[Part]:
    yield "data", "", "U8", (*shape[:-1], _up(shape[-1], 2))
    yield "scale", "_scale", "F8_E8M0", (*shape[:-1], _up(shape[-1], block[1]))


def _mxfp8(shape: Shape, block: Shape) -> Iterator[Part]:
    yield "data", "", "F8_E4M3", shape
    yield "scale", "_scale", "F8_E8M0", (*shape[:-1], _up(shape[-1], block[1]))


def _nvfp4(shape: Shape, block: Shape) -> Iterator[Part]:
    yield "data", "", "U8", (*shape[:-1], _up(shape[-1], 2))
    yield "scale", "_scale", "F8_E4M3", (*shape[:-1], _up(shape[-1], block[1]))
    yield "factor", "_scale_2", "F32", shape[:-2]


def _int4(shape: Shape, block: Shape) -> Iterator[Part]:
    yield "data", "_packed", "I32", (*shape[:-1], _up(shape[-1], 8))
    yield "scale", "_scale", "BF16", (*shape[:-1], _up(shape[-1], block[1]))
    yield "shape", "_shape", "I32", (*shape[:-2], 2)


def _gptq(shape: Shape, block: Shape) -> Iterator[Part]:
    *stack, rows, columns = shape
    groups = _up(columns, block[1])
    yield "data", ".qweight", "I32", (*stack, _up(columns, 8), rows)
    yield "scale", ".scales", "F16", (*stack, groups, rows)
    yield "zeros_less_one", ".qzeros", "I32", (*stack, groups, _up(rows, 8))
    yield "group_of", ".g_idx", "I32", (*stack, columns)


def _awq(shape: Shape, block: Shape) -> Iterator[Part]:
    *stack, rows, columns = shape
    groups = _up(columns, block[1])
    yield "data", ".qweight", "I32", (*stack, columns, _up(rows, 8))
    yield "scale", ".scales", "F16", (*stack, groups, rows)
    yield "zeros", ".qzeros", "I32", (*stack, groups, _up(rows, 8))


def _up(count: int, unit: int) -> int:
    return -(-count // unit)


LAYOUTS: Mapping[str, Callable[[Shape, Shape], Iterator[Part]]] = {
    "fp8": _fp8, "fp8_block": _fp8_block, "mxfp4": _mxfp4, "mxfp8": _mxfp8, "nvfp4": _nvfp4, "int4": _int4, "gptq": _gptq, "awq": _awq,
}  # fmt: skip
