"""AWQ with 4 bits in the layout "gemm" (arXiv 2306.00978, AutoAWQ): turned, eight outputs a word in an order of their own.

`X.qweight` I32 [I, O / 8], `X.qzeros` I32 [G, O / 8], `X.scales` [G, O]; weight[o, i] = (code - zero) · scale. Output 8c + j of a row
lies in word c at bits 4 · (0, 4, 1, 5, 2, 6, 3, 7)[j].
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from day0.checkpoint.quantization import says
from day0.formats.gptq import grouping
from day0.formats.int4 import WORD
from day0.formats.mxfp4 import STRIPE, wide
from day0.spec.dtype import FLOATING
from day0.spec.format import Format, Reading, Steps, Stored, TensorHeader, Want, by_companions
from day0.spec.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

PLACES = (0, 4, 1, 5, 2, 6, 3, 7)  # place in the word of each of its outputs, in units of four bits


def reading(header: TensorHeader, headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> Reading | None:
    """Words that have a column for eight outputs: the scales have eight times as many. Other layouts of the method are left alone."""
    if not header.name.endswith(".qweight") or header.dtype != "I32" or len(header.shape) != 2 or 0 in header.shape:
        return None
    bits, versions, methods = (says(config, key) for key in ("bits", "version", "quant_method"))
    if (bits and 4 not in bits) or ("awq" in methods and versions and "gemm" not in {str(version).lower() for version in versions}):
        return None
    module, (inputs, words) = header.name.removesuffix(".qweight"), header.shape
    scales = headers.get(f"{module}.scales")
    width = scales.shape[-1] if scales is not None and scales.shape else None
    if width != words * WORD and "awq" not in methods:
        return None
    groups, group = grouping(inputs, scales, says(config, "group_size"))
    wants = {
        "scale": Want((f"{module}.scales",), FLOATING, ((groups, words * WORD),)),
        "zeros": Want((f"{module}.qzeros",), frozenset({"I32"}), ((groups, words),)),
    }
    return Reading(f"{module}.weight", (words * WORD, inputs), wants, (1, group))


def steps(_stored: Stored, axis: int) -> Steps | None:
    """Outputs can be cut where a word ends."""
    return {"data": (1, WORD), "zeros": (1, WORD), "scale": (1, 1)} if axis == 0 else None


def decode(parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> None:
    """(code - zero) is exact; the product with the scale rounds in float32 (float64 when `out` is), and once more to the type of `out`."""
    shifts = torch.tensor(PLACES, dtype=torch.int32, device=out.device) * 4
    step = max(1, STRIPE // max(1, out.shape[0]))
    for start in range(0, out.shape[1], step):
        columns = slice(start, min(out.shape[1], start + step))
        group = torch.arange(columns.start, columns.stop, device=out.device) // block[1]
        values = _codes(parts["data"][columns], shifts).sub_(_codes(parts["zeros"][group], shifts))
        out[:, columns].copy_(values.to(wide(out)).mul_(parts["scale"][group].to(wide(out))).T)


def _codes(words: "Tensor", shifts: "Tensor") -> "Tensor":
    """Words [R, N] → codes [R, 8 N]."""
    return ((words[:, :, None] >> shifts) & 15).flatten(1)


FORMAT = Format(
    name="awq", order=50, recognise=by_companions("awq", reading), decode=decode, packed=True, reading=reading, steps=steps, turned=True,
)  # fmt: skip
