"""GPTQ with 4 bits (arXiv 2210.17323, as AutoGPTQ, GPTQModel and AutoRound store it): turned, eight inputs a word.

`X.qweight` I32 [I / 8, O], `X.qzeros` I32 [G, O / 8], `X.scales` [G, O], and `X.g_idx` I32 [I], the group of each input; without it,
groups follow one another. weight[o, i] = (code - zero) · scale. The first version of the format stores zero - 1, the second
(`checkpoint_format` gptq_v2) zero itself: only the configuration tells them apart. A stored 15 of the first version is 16.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from day0.checkpoint.quantization import says
from day0.formats.fp8_block import USUAL
from day0.formats.int4 import INTEGERS, WORD, groups_wrong
from day0.formats.mxfp4 import STRIPE, wide
from day0.spec.dtype import FLOATING
from day0.spec.format import Format, Reading, Steps, Stored, TensorHeader, Want, by_companions
from day0.spec.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

SECOND = frozenset({"gptq_v2", "auto_round:gptqmodel", "auto_round:auto_gptq_v2"})


def reading(header: TensorHeader, headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> Reading | None:
    """Words that have one column for each output; a width of other than four bits is left alone."""
    if not header.name.endswith(".qweight") or header.dtype != "I32" or len(header.shape) != 2 or 0 in header.shape:
        return None
    if (bits := says(config, "bits")) and 4 not in bits:
        return None
    module, (words, outputs) = header.name.removesuffix(".qweight"), header.shape
    scales = headers.get(f"{module}.scales")
    if outputs % WORD or (scales is not None and scales.shape[-1:] == (outputs * WORD,)):
        return None
    groups, group = grouping(words * WORD, scales, says(config, "group_size"))
    second = bool(SECOND & (says(config, "checkpoint_format") | says(config, "packing_format")))
    wants = {
        "scale": Want((f"{module}.scales",), FLOATING, ((groups, outputs),)),
        "zeros" if second else "zeros_less_one": Want((f"{module}.qzeros",), frozenset({"I32"}), ((groups, outputs // WORD),)),
    }
    if f"{module}.g_idx" in headers or True in says(config, "desc_act"):
        wants["group_of"] = Want((f"{module}.g_idx",), INTEGERS, ((words * WORD,),))
    return Reading(f"{module}.weight", (outputs, words * WORD), wants, (1, group))


def grouping(inputs: int, scales: TensorHeader | None, stated: set[Any]) -> tuple[int, int]:
    """(groups, inputs in each) by the rows of the scales."""
    sizes = [size for size in sorted(size for size in stated if isinstance(size, int)) if size > 0]
    if scales is None or not scales.shape or not scales.shape[0]:
        group = next(iter(sizes), inputs)
        return -(-inputs // group), group
    groups = scales.shape[0]
    for size in (inputs, *sizes, *USUAL):
        if -(-inputs // size) == groups:
            return groups, size
    return -(-inputs // USUAL[0]), USUAL[0]


def steps(stored: Stored, axis: int) -> Steps | None:
    """Outputs can be cut where a word of zeros ends."""
    zeros = {part: (1, WORD) for part in ("zeros", "zeros_less_one") if part in stored.parts}
    return {"data": (1, 1), "scale": (1, 1), **zeros} if axis == 0 else None


def confirm(parts: "dict[str, Tensor]", _shape: tuple[int, ...]) -> str | None:
    """Every input has a group that there is."""
    return groups_wrong(parts["group_of"], parts["scale"].shape[-2]) if "group_of" in parts else None


def decode(parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> None:
    """(code - zero) is exact; the product with the scale rounds in float32 (float64 when `out` is), and once more to the type of `out`."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=out.device)
    zeros, less = (parts["zeros"], 0) if "zeros" in parts else (parts["zeros_less_one"], 1)
    for columns, words in stripes(out):
        codes = ((parts["data"][words, None] >> shifts[:, None]) & 15).flatten(0, 1)
        group = group_of(columns, parts, block, out)
        values = codes - ((zeros[group, :, None] >> shifts) & 15).flatten(1).add_(less)
        out[:, columns].copy_(values.to(wide(out)).mul_(parts["scale"][group].to(wide(out))).T)


def stripes(out: "Tensor") -> Iterator[tuple[slice, slice]]:
    """(columns of `out`, rows of words that hold them), few enough that what is computed on the way stays small."""
    step = max(1, STRIPE // (WORD * max(1, out.shape[0])))
    for start in range(0, out.shape[1] // WORD, step):
        stop = min(out.shape[1] // WORD, start + step)
        yield slice(start * WORD, stop * WORD), slice(start, stop)


def group_of(columns: slice, parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> "Tensor":
    """The group of each of these inputs."""
    if "group_of" in parts:
        return parts["group_of"][columns].long()
    return torch.arange(columns.start, columns.stop, device=out.device) // block[1]


FORMAT = Format(
    name="gptq", order=50, recognise=by_companions("gptq", reading), decode=decode, packed=True, reading=reading, steps=steps, turned=True,
    confirm=confirm,
)  # fmt: skip
