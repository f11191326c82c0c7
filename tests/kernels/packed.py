"""Weights of random codes in every packed format, as the engine holds them, in the calls of operators that read them so."""

from math import log2
from typing import Any

import torch
from torch import Tensor

from day0.spec.ops import Case, Op
from day0.spec.packed import Packed

Block = tuple[int, ...]
BLOCKS: dict[str, Block] = {
    "awq": (1, 128), "fp8": (), "fp8_block": (128, 128), "gptq": (1, 128), "int4": (1, 128), "mxfp4": (1, 32), "mxfp8": (1, 32), "nvfp4": (1, 16),
}  # fmt: skip
WEIGHTS = {"linear": ("weight_OI",), "grouped_linear": ("weight_OI",), "experts": ("gate_EFD", "up_EFD", "down_EDF")}
SIZES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "linear": ({"T": 5, "O": (72,), "I": 320, "bias": True}, ("awq", "gptq", "int4")),
    "grouped_linear": ({"T": 5, "G": 3, "O": 24, "I": 160}, ("fp8_block",)),
    "experts": ({"T": 5, "D": 192, "F": 72, "K": 2, "variant": "biases"}, ("awq", "gptq", "int4")),
}  # operator → sizes that eight divides, and formats in which its own cases have no weights, or not in those groups
RMS = {"e4m3": 123.0, "e2m1": 2.9, "int4": 6.0}  # about that of random codes


def cases(op: Op) -> list[Case]:
    """Beside those of the operator."""
    sizes, forms = SIZES.get(op.name, ({}, ()))
    return [case(op, op.cases.at(**sizes), form) for form in forms]  # type: ignore[attr-defined]


def case(op: Op, plain: Case, form: str) -> Case:
    """The same call with packed weights."""
    return Case(name=f"{plain.name} {form}", make=lambda *drawn: at_rest(op, plain.make(*drawn), form))


def at_rest(op: Op, made: dict[str, Any], form: str, block: Block | None = None, scattered: bool = False) -> dict[str, Any]:
    """The same arguments with other weights, which are packed."""
    return made | {name: packed(form, made[name], block, scattered) for name in WEIGHTS[op.name] if made[name] is not None}


def packed(form: str, like: Tensor, block: Block | None = None, scattered: bool = False) -> Packed:
    """A weight of the shape, type and device of another, of about unit gain; `scattered`: inputs belong to groups in no order."""
    block = BLOCKS[form] if block is None else block
    make = words if form in ("awq", "gptq", "int4") else bytes_
    torch.manual_seed(like.numel())
    with like.device:
        parts = make(form, tuple(like.shape), block, scattered)
    return Packed(form, parts, block, tuple(like.shape), like.dtype, bank=like.dim() > 2)


def bytes_(form: str, shape: tuple[int, ...], block: Block, _: bool) -> dict[str, Tensor]:
    """Formats whose codes are bytes, or halves of them."""
    *E, O, I = shape
    gain = I**-0.5 / RMS["e4m3" if form in ("fp8", "fp8_block", "mxfp8") else "e2m1"]
    groups = -(-I // block[1]) if block else 1
    power = round(log2(gain)) + 127
    match form:
        case "fp8":
            return {"data": e4m3(*shape), "scale": scale(gain, *E, O, 1)}
        case "fp8_block":
            return {"data": e4m3(*shape), "scale": scale(gain, *E, -(-O // block[0]), groups)}
        case "mxfp8":
            return {"data": e4m3(*shape), "scale": integers(power - 1, power + 2, *E, O, groups)}
        case "mxfp4":
            return {"data": integers(0, 256, *E, O, I // 2), "scale": integers(power - 1, power + 2, *E, O, groups).view(torch.float8_e8m0fnu)}
    return {"data": integers(0, 256, *E, O, I // 2), "scale": e4m3(*E, O, groups), "divisor": scale(RMS["e4m3"] / gain, *(E or [1]))}


def words(form: str, shape: tuple[int, ...], block: Block, scattered: bool) -> dict[str, Tensor]:
    """Formats of four bits, eight codes a word."""
    *E, O, I = shape
    gain, groups = I**-0.5 / RMS["int4"], -(-I // block[1])
    order = {"group_of": torch.randint(0, groups, (I,), dtype=torch.int32)} if scattered else {}
    match form:
        case "int4":
            zeros = {"zeros": codes(*E, -(-O // 8), groups)} if block[1] < 128 else {}
            return {"data": codes(*E, O, -(-I // 8)), "scale": scale(gain, *E, O, groups).bfloat16(), **zeros, **order}
        case "gptq":
            zeros = {"zeros_less_one": codes(*E, groups, O // 8)}
            return {"data": codes(*E, I // 8, O), "scale": scale(gain, *E, groups, O).half(), **zeros, **order}
    return {"data": codes(*E, I, O // 8), "scale": scale(gain, *E, groups, O).half(), "zeros": codes(*E, groups, O // 8)}


def e4m3(*shape: int) -> Tensor:
    """Every code that is a number."""
    return (integers(0, 127, *shape) | (integers(0, 2, *shape) << 7)).view(torch.float8_e4m3fn)


def codes(*shape: int) -> Tensor:
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int32)


def integers(low: int, high: int, *shape: int) -> Tensor:
    return torch.randint(low, high, shape, dtype=torch.uint8)


def scale(middle: float, *shape: int) -> Tensor:
    return (torch.rand(shape) + 0.5) * middle
