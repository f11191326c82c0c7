"""A weight as kernels are told of it: its tensors, how they lie, and what its codes mean."""

from __future__ import annotations

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Site
from day0.spec.record import record

PACKED = ("fp8", "fp8_block", "mxfp8", "mxfp4", "nvfp4", "int4", "gptq", "awq")
HALVES = ("bfloat16", "float16")  # types that products of decoded weights are in
TURNABLE = ("plain", "fp8", "fp8_block", "mxfp8")  # formats that are read as well with inputs before outputs
WHOLE_ROW = 1 << 30  # inputs of a group that is the whole row


@record
class Matrix:
    """One matrix, or a bank of them."""

    form: str  #: how codes lie: FORM of `tile`
    tensors: tuple[Any, ...]  #: data, scale, zeros, groups, whole; None where there is none
    lie: tuple[int, ...]  #: elements to the next expert, output and input of data; expert, output and group of scale, and of zeros;
    #: expert of whole, and of groups where there are any
    shape: tuple[int, ...]  #: outputs, inputs; of a bank, experts before them
    kind: str = ""  #: type of scales that are no floating-point numbers: "e8m0", "e4m3"
    rows: int = 1  #: outputs that share a scale
    group: int = WHOLE_ROW  #: inputs that share one
    less: int = 0  #: added to stored zeros
    divide: bool = False  #: whether `whole` divides

    @property
    def bits(self) -> int:
        """Of a code."""
        return {"plain": 16, "e4m3": 8}.get(self.form, 4)

    @property
    def scattered(self) -> int:
        """1 where inputs belong to groups in no order."""
        return int(self.tensors[3] is not None)

    def meaning(self, block: int) -> tuple[Any, ...]:
        """What a kernel that reads tiles of `block` inputs is compiled for: MEANING of `tile`."""
        return self.form, self.kind, self.spread(block), self.rows, self.group, self.less, self.divide

    def spread(self, block: int) -> str:
        """What a scale serves in a tile of `block` inputs: SPREAD of `tile`."""
        _, scale, _, groups, _ = self.tensors
        if scale is None:
            return "none"
        if groups is not None:
            return "each"
        if self.group == WHOLE_ROW:
            return "end"
        return "step" if self.group % block == 0 else "tile" if block % self.group == 0 else "each"


def unreadable(site: Site) -> str | None:
    """Why `matrix` cannot describe the weights of a call; None when it can."""
    turned = site.options.get("turned") and site.format not in TURNABLE
    return f"reads {site.format} codes that follow each other along the inputs" if turned else None


def matrix(weight: Any) -> Matrix:
    """Of a tensor, or of a weight that stays packed (`format`, `parts`, `block`, `shape`, `bank`, `turned`)."""
    if isinstance(weight, torch.Tensor):
        return _matrix("plain", {"data": weight}, tuple(weight.shape), weight.dim() > 2)
    parts = {name: part.view(torch.uint8) if part.element_size() == 1 else part for name, part in weight.parts.items()}
    if weight.turned:
        assert weight.format in TURNABLE
        parts = exchanged(parts)
    lie = {"shape": tuple(weight.shape), "bank": weight.bank}
    rows, group = weight.block or (1, WHOLE_ROW)
    rows, group = (group, rows) if weight.turned else (rows, group)
    group = group if group < weight.shape[-1] else WHOLE_ROW
    match weight.format:
        case "fp8":
            return _matrix("e4m3", parts, **lie, rows=rows, group=group)
        case "fp8_block" | "mxfp8":
            kind = "e8m0" if parts["scale"].dtype == torch.uint8 else ""
            return _matrix("e4m3", parts, **lie, kind=kind, rows=rows, group=group)
        case "mxfp4":
            parts["data"] = parts["data"].view(*weight.shape[:-1], -1)
            return _matrix("e2m1", parts, **lie, kind="e8m0", group=group)
        case "nvfp4":
            parts["whole"] = parts["divisor" if "divisor" in parts else "factor"]
            return _matrix("e2m1", parts, **lie, kind="e4m3", group=group, divide="divisor" in parts)
        case "int4":
            parts["data"] = parts["data"].view(torch.uint8)
            return _matrix("int4", parts, **lie, group=group)
    zeros = "zeros_less_one" if "zeros_less_one" in parts else "zeros"
    parts = exchanged(parts)
    parts["zeros"] = parts[zeros]
    return _matrix(weight.format, parts, **lie, group=group, less=int(zeros == "zeros_less_one"))


def exchanged(parts: dict[str, Any]) -> dict[str, Any]:
    """The last two axes of what has a place for each output and input."""
    return {name: part.transpose(-1, -2) if part.dim() > 1 and name != "group_of" else part for name, part in parts.items()}


def _matrix(form: str, parts: dict[str, Any], shape: tuple[int, ...], bank: bool, **meaning: Any) -> Matrix:
    tensors = tuple(parts.get(name) for name in ("data", "scale", "zeros", "group_of", "whole"))
    data, scale, zeros, groups, whole = (steps(one, shape[0] if bank else None) for one in tensors)
    own = () if tensors[3] is None else groups[:1]
    if not scale[2]:
        meaning["group"] = WHOLE_ROW
    return Matrix(form=form, tensors=tensors, lie=(*data, *scale, *zeros, whole[0], *own), shape=shape, **meaning)


def steps(part: Any, experts: int | None) -> tuple[int, int, int]:
    """Elements to the next expert, output and input (or group); 0 where there is one for all."""
    if part is None:
        return 0, 0, 0
    steps = [step if size > 1 else 0 for size, step in zip(part.shape, part.stride(), strict=True)]
    own = steps.pop(0) if experts is not None and part.dim() and part.shape[0] == experts else 0
    return own, *((*steps, 0, 0)[:2] if len(steps) < 2 else steps[-2:])
