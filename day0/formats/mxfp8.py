"""OCP MXFP8 (OCP Microscaling Formats 1.0): E4M3 codes, one power of two for each 32 inputs of a row.

`X.weight` [..., O, I] comes with `X.weight_scale`, `X.weight_scale_inv` or `X.scale` [..., O, ceil(I / 32)] in E8M0, also as U8;
weight = code · scale for every name. Scales of activations are not used: weights alone are decoded.
"""

from collections.abc import Mapping
from typing import Any

from day0.formats.fp8_block import decode
from day0.spec.format import Format, Reading, TensorHeader, Want, by_companions, by_rows

GROUP = 32
POWERS = frozenset({"U8", "F8_E8M0"})


def reading(header: TensorHeader, _headers: Mapping[str, TensorHeader], _config: Mapping[str, Any]) -> Reading | None:
    """E4M3 matrices and stacks of them."""
    if header.dtype != "F8_E4M3" or len(header.shape) < 2 or 0 in header.shape:
        return None
    names = (f"{header.name}_scale", f"{header.name}_scale_inv", f"{header.name.removesuffix('.weight')}.scale")
    *stack, columns = header.shape
    return Reading(header.name, header.shape, {"scale": Want(names, POWERS, ((*stack, -(-columns // GROUP)),))}, (1, GROUP))


FORMAT = Format(
    name="mxfp8", order=60, recognise=by_companions("mxfp8", reading), decode=decode, packed=True, reading=reading, steps=by_rows,
)  # fmt: skip
