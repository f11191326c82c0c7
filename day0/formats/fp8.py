"""fp8 with one scale for a whole weight or for each of its rows (outputs): E4M3 codes; weight = code · scale.

`X.weight` [..., O, I] comes with `X.weight_scale` (compressed-tensors float-quantized, ModelOpt FP8) or `X.qscale_weight` (Mistral): one
number, [O], [O, 1], or the same for each expert of a stack; `X.weight_scale_inv` counts where it is a single number, its other shapes
are blocks. Scales are F32, F16 or BF16. Scales of activations are not used: weights alone are decoded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from day0.formats.mxfp4 import stripes, wide
from day0.formats.nvfp4 import of_expert, single_shapes
from day0.spec.dtype import FLOATING
from day0.spec.format import Format, Reading, TensorHeader, Want, by_companions, by_rows

if TYPE_CHECKING:
    from torch import Tensor


def reading(header: TensorHeader, headers: Mapping[str, TensorHeader], _config: Mapping[str, Any]) -> Reading | None:
    """E4M3 matrices and stacks of them."""
    if header.dtype != "F8_E4M3" or len(header.shape) < 2 or 0 in header.shape:
        return None
    *experts, rows, _ = header.shape
    single = single_shapes(tuple(experts))
    each = ((*experts, rows, 1), (rows,)) if not experts else ((*experts, rows, 1),)
    inverse = f"{header.name}_scale_inv"
    if inverse in headers:
        return Reading(header.name, header.shape, {"scale": Want((inverse,), FLOATING, ((), (1,)))})
    names = (f"{header.name}_scale", f"{header.name.removesuffix('.weight')}.qscale_weight")
    return Reading(header.name, header.shape, {"scale": Want(names, FLOATING, tuple(dict.fromkeys((*single, *each))))})


def decode(parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> None:
    """Multiplied in float32 (float64 when `out` is) and rounded once to the type of `out`; stripe by stripe."""
    if out.ndim > 2:
        for e, plane in enumerate(out):
            decode({part: of_expert(value, e, len(out)) for part, value in parts.items()}, block, plane)
        return
    scale = parts["scale"].to(wide(out)).reshape(-1, 1)
    for rows, target in stripes(out):
        target.copy_(parts["data"][rows].to(wide(out)).mul_(scale[rows] if len(scale) > 1 else scale))


FORMAT = Format(
    name="fp8", order=90, recognise=by_companions("fp8", reading), decode=decode, packed=True, reading=reading, steps=by_rows,
)  # fmt: skip
