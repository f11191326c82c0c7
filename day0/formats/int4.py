"""compressed-tensors pack-quantized with 4 bits: eight codes a word along the inputs, the first in the lowest bits.

`X.weight_packed` I32 [..., O, ceil(I / 8)] comes with `X.weight_scale` [..., O, G], one for each group of inputs (G = 1: for each row),
and `X.weight_shape`, which says I where the last word is not full. weight = (code - zero) · scale; zero is 8, or where the weight is
not symmetric the code in `X.weight_zero_point` I32 [..., ceil(O / 8), G], packed along the outputs. `X.weight_g_idx` [I] names the
group of each input, unless its entries are -1. Scales of activations are not used: weights alone are decoded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from day0.checkpoint.quantization import says
from day0.formats.fp8_block import USUAL
from day0.formats.mxfp4 import scaled, stripes, wide
from day0.spec.dtype import FLOATING
from day0.spec.format import Format, Reading, Steps, Stored, TensorHeader, Want, by_companions
from day0.spec.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

WORD = 8  # codes in a word
MIDDLE = 8  # code of zero in a symmetric weight
INTEGERS = frozenset({"I32", "I64"})


def reading(header: TensorHeader, headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> Reading | None:
    """Words beside a shape; left alone where the configuration speaks of another width only."""
    name = header.name.removesuffix("_packed")
    if header.dtype != "I32" or name == header.name or len(header.shape) < 2 or 0 in header.shape:
        return None
    if (bits := says(config, "num_bits")) and 4 not in bits:
        return None
    *stack, rows, words = header.shape
    scale = headers.get(f"{name}_scale")
    groups = scale.shape[-1] if scale is not None and scale.shape else 1
    columns, group, slack = inputs(words * WORD, groups, says(config, "group_size"))
    wants = {
        "scale": Want((f"{name}_scale",), FLOATING, ((*stack, rows, -(-columns // group)),)),
        "shape": Want((f"{name}_shape",), INTEGERS, ((len(header.shape),),)),
    }
    if f"{name}_zero_point" in headers or says(config, "symmetric") == {False}:
        wants["zeros"] = Want((f"{name}_zero_point",), frozenset({"I32"}), ((*stack, -(-rows // WORD), groups),))
    if f"{name}_g_idx" in headers or "group" in says(config, "actorder"):
        shapes = tuple((columns - missing,) for missing in range(slack + 1))
        wants["group_of"] = Want((f"{name}_g_idx",), INTEGERS, shapes)
    return Reading(name, (*stack, rows, columns), wants, (1, group), slack)


def inputs(room: int, groups: int, stated: set[Any]) -> tuple[int, int, int]:
    """(inputs, size of a group, inputs that may be fewer) of words that have room for `room`."""
    least = room - WORD + 1
    if groups == 1:
        return room, room, WORD - 1
    sizes = [size for size in (*sorted(size for size in stated if isinstance(size, int)), *USUAL) if size > 0]
    whole = next((size for size in sizes if least <= size * groups <= room), None)
    if whole is not None:
        return whole * groups, whole, 0
    ragged = next((size for size in sizes if -(-room // size) == groups), sizes[0])
    return room, ragged, WORD - 1


def steps(stored: Stored, axis: int) -> Steps | None:
    """Rows are independent; zeros hold eight of them a word."""
    if axis != len(stored.shape) - 2:
        return None
    found = {"data": (axis, 1), "scale": (axis, 1)}
    return found | ({"zeros": (axis, WORD)} if "zeros" in stored.parts else {})


def confirm(parts: "dict[str, Tensor]", shape: tuple[int, ...]) -> str | None:
    """The stored shape is the decoded one, and every input has a group that there is."""
    for stored in parts["shape"].reshape(-1, len(shape)).tolist():
        if stored != list(shape):
            return f"weight_shape says {stored}, but it is {list(shape)}"
    return groups_wrong(parts["group_of"], parts["scale"].shape[-1], least=-1) if "group_of" in parts else None


def groups_wrong(group_of: "Tensor", groups: int, least: int = 0) -> str | None:
    """What is wrong with the groups that inputs are said to be in."""
    low, high = int(group_of.min()), int(group_of.max())
    return None if least <= low and high < groups else f"g_idx speaks of groups {low} to {high}, there are {groups}"


def decode(parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> None:
    """(code - zero) is exact; the product with the scale rounds in float32 (float64 when `out` is), and once more to the type of `out`."""
    if out.ndim > 2:
        for e, plane in enumerate(out):
            decode({part: value if part == "shape" else value[e] for part, value in parts.items()}, block, plane)
        return
    group_of = parts.get("group_of")
    ordered = group_of is not None and bool((group_of >= 0).all())
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=out.device)
    for rows, target in stripes(out):
        scale = parts["scale"][rows].to(wide(out))
        values = ((parts["data"][rows][:, :, None] >> shifts) & 15).flatten(1)[:, : out.shape[1]].to(wide(out))
        zeros = _zeros(parts["zeros"], rows.start, len(target)).to(wide(out)) if "zeros" in parts else None
        if ordered:
            values -= MIDDLE if zeros is None else zeros[:, group_of]
            target.copy_(values.mul_(scale[:, group_of]))
        else:
            values -= MIDDLE if zeros is None else zeros.repeat_interleave(block[1], 1)[:, : out.shape[1]]
            target.copy_(scaled(values, scale, block[1]))


def _zeros(words: "Tensor", start: int, count: int) -> "Tensor":
    """Codes [count, G] of rows from `start` on, from words that hold eight rows."""
    row = torch.arange(start, start + count, device=words.device)
    return (words[row // WORD] >> (row % WORD * 4).int()[:, None]) & 15


FORMAT = Format(
    name="int4", order=50, recognise=by_companions("int4", reading), decode=decode, packed=True, reading=reading, steps=steps,
    confirm=confirm,
)  # fmt: skip
