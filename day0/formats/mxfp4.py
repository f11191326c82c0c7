"""OCP MXFP4 (OCP Microscaling Formats 1.0): E2M1 codes, one power of two for each 32 inputs of a row.

Three layouts of the same numbers, told apart by names and types; two codes a byte, the even input in the low half:

* gpt-oss: `X_blocks` U8 [..., O, I/32, 16] and `X_scales` U8 [..., O, I/32]; the weight is called `X_blocks`, because a release that
  is not packed stores `X` turned;
* compressed-tensors: `X.weight_packed` U8 [..., O, I/2] and `X.weight_scale` E8M0 [..., O, I/32];
* DeepSeek-V4 and others: `X.weight` I8 or U8 [..., O, I/2] and `X.scale`, `X.weight_scale` or `X.weight_scale_inv` E8M0.

A scale byte b is 2^(b - 127), and NaN for b = 255. Scales of activations are not used: weights alone are decoded.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from day0.formats.fp8_block import widen
from day0.spec.format import Format, Reading, TensorHeader, Want, by_companions, by_rows
from day0.spec.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

GROUP = 32
POWERS = frozenset({"U8", "F8_E8M0"})
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # E2M1 codes 0 to 7; bit 3 is the sign
STRIPE = 1 << 18  # elements decoded at once


def reading(header: TensorHeader, _headers: Mapping[str, TensorHeader], _config: Mapping[str, Any]) -> Reading | None:
    """By dtype and name; the scale grid decides."""
    if header.dtype not in ("U8", "I8") or len(header.shape) < 2 or 0 in header.shape:
        return None
    *stack, last = header.shape
    if header.name.endswith("_blocks"):
        if header.dtype != "U8" or last != GROUP // 2 or len(stack) < 2:
            return None
        want = Want((f"{header.name.removesuffix('_blocks')}_scales",), POWERS, (tuple(stack),))
        return Reading(header.name, (*stack[:-1], stack[-1] * GROUP), {"scale": want}, (1, GROUP))
    name = weight_name(header)
    if name is None:
        return None
    names: tuple[str, ...] = (f"{name}_scale",)
    if name == header.name:
        names += (f"{name.removesuffix('.weight')}.scale", f"{name}_scale_inv")
    want = Want(names, POWERS, ((*stack, -(-2 * last // GROUP)),))
    return Reading(name, (*stack, 2 * last), {"scale": want}, (1, GROUP))


def weight_name(header: TensorHeader) -> str | None:
    """`X.weight` of a tensor of two codes a byte; None for a tensor that is a companion by its name."""
    if header.name.endswith(".weight_packed"):
        return header.name.removesuffix("_packed") if header.dtype == "U8" else None
    return header.name if header.name.endswith((".weight", "_proj")) else None


def decode(parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> None:
    """code · scale in float32 (float64 when `out` is), exact but for the range, rounded once to the type of `out`; stripe by stripe."""
    if out.ndim > 2:
        for data, scale, plane in zip(parts["data"], parts["scale"], out, strict=True):
            decode({"data": data, "scale": scale}, block, plane)
        return
    data = parts["data"].view(torch.uint8).flatten(1)
    for rows, target in stripes(out):
        target.copy_(scaled(pairs(data[rows]).to(wide(out)), widen(parts["scale"][rows], wide(out)), GROUP))


def stripes(out: "Tensor") -> Iterator[tuple[slice, "Tensor"]]:
    """(rows, that part of `out`): few enough that what is computed on the way stays small."""
    step = max(1, STRIPE // max(1, out.shape[1]))
    for start in range(0, out.shape[0], step):
        rows = slice(start, start + step)
        yield rows, out[rows]


def wide(out: "Tensor") -> Any:
    """The type to multiply in."""
    return torch.float64 if out.dtype == torch.float64 else torch.float32


def scaled(values: "Tensor", scale: "Tensor", group: int) -> "Tensor":
    """Rows times the scale of each group of `group` columns, in place; the last group may be shorter."""
    columns = values.shape[1]
    if columns == scale.shape[1] * group:
        values.view(*scale.shape, group).mul_(scale[:, :, None])
        return values
    return values.mul_(scale.repeat_interleave(group, 1)[:, :columns])


def pairs(data: "Tensor") -> "Tensor":
    """Bytes [R, N] → E2M1 values [R, 2 N] in float32."""
    return halves(data, _table(data.device))


def halves(data: "Tensor", table: "Tensor") -> "Tensor":
    """Bytes [R, N] → [R, 2 N]: `table` holds, for each byte, its two float32 values as one number of 64 bits."""
    return table[data.int()].view(torch.float32)


@cache
def _table(device: Any) -> "Tensor":
    values = torch.tensor([*MAGNITUDES, *(-value for value in MAGNITUDES)])
    return table_of(values).to(device)


def table_of(values: "Tensor") -> "Tensor":
    """Sixteen values, by code → one number of 64 bits for each byte: that of its low half, then that of its high half."""
    byte = torch.arange(256)
    return torch.stack((values[byte & 15], values[byte >> 4]), 1).contiguous().view(torch.float64).flatten()


FORMAT = Format(
    name="mxfp4", order=50, recognise=by_companions("mxfp4", reading), decode=decode, packed=True, reading=reading, steps=by_rows,
)  # fmt: skip
