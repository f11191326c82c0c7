"""NVIDIA's NVFP4: E2M1 codes, one E4M3 scale for each 16 inputs of a row, one float32 number for the whole weight.

Two codes a byte, the even input in the low half. ModelOpt stores `X.weight` U8 [..., O, I/2], `X.weight_scale` F8_E4M3 [..., O, I/16]
and a factor `X.weight_scale_2`; compressed-tensors stores `X.weight_packed`, `X.weight_scale` and a divisor `X.weight_global_scale`.
The number stands once, or once for each expert of a stack. Scales of activations are not used: weights alone are decoded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from day0.formats.mxfp4 import pairs, scaled, stripes, weight_name, wide
from day0.spec.format import Format, Reading, TensorHeader, Want, by_companions, by_rows

if TYPE_CHECKING:
    from torch import Tensor

GROUP = 16


def reading(header: TensorHeader, _headers: Mapping[str, TensorHeader], _config: Mapping[str, Any]) -> Reading | None:
    """Bytes with a grid of E4M3 scales and one number; which of the two numbers, the name of the bytes says."""
    name = weight_name(header) if header.dtype == "U8" and len(header.shape) >= 2 and 0 not in header.shape else None
    if name is None:
        return None
    *stack, last = header.shape
    scale = Want((f"{name}_scale",), frozenset({"F8_E4M3"}), ((*stack, -(-2 * last // GROUP)),))
    experts = tuple(stack[:-1])
    single = Want((f"{name}_scale_2",), frozenset({"F32"}), single_shapes(experts))
    wants = {"scale": scale, "factor": single}
    if name != header.name:
        wants = {"scale": scale, "divisor": single._replace(names=(f"{name}_global_scale",))}
    return Reading(name, (*stack, 2 * last), wants, (1, GROUP))


def single_shapes(experts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Shapes of one number for each matrix of a stack, or for all."""
    each = (experts, (*experts, 1), (*experts, 1, 1)) if experts else ()
    return tuple(dict.fromkeys((*each, (), (1,), (1, 1))))


def decode(parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> None:
    """code · scale is exact in float32; the factor (or divisor) rounds once, the type of `out` once more. Stripe by stripe."""
    if out.ndim > 2:
        for e, plane in enumerate(out):
            decode({part: of_expert(value, e, len(out)) for part, value in parts.items()}, block, plane)
        return
    kind = wide(out)
    whole = {part: parts[part].to(kind).reshape(()) for part in ("factor", "divisor") if part in parts}
    for rows, target in stripes(out):
        values = scaled(pairs(parts["data"][rows]).to(kind), parts["scale"][rows].to(kind), GROUP)
        target.copy_(values.mul_(whole["factor"]) if "factor" in whole else values.div_(whole["divisor"]))


def of_expert(part: "Tensor", e: int, experts: int) -> "Tensor":
    """What belongs to one expert; a number that serves all of them belongs to each."""
    return part[e] if part.ndim and part.shape[0] == experts else part


FORMAT = Format(
    name="nvfp4", order=50, recognise=by_companions("nvfp4", reading), decode=decode, packed=True, reading=reading, steps=by_rows,
)  # fmt: skip
