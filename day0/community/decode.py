"""A second opinion on stored numbers: the safetensors library and each format's definition, written out in a style of its own.

Nothing here shares code with `day0.formats`, so that a mistake there shows.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.community import packed
from day0.spec.format import Stored


def independent(checkpoint: Checkpoint, stored: Stored, rows: slice | None = None) -> tuple[Tensor, str] | None:
    """(float32 values, name of the path) by another way than our formats'; None where there is no second way.

    What the configuration says about quantisation is read again, and companions are found again by their names. `rows` of a plain tensor
    may be read alone.
    """
    assert rows is None or stored.format == "plain"
    formula = FORMULAS.get(stored.format)
    if formula is None:
        return None
    parts = {part: _load(checkpoint, _name(checkpoint, stored, part), rows) for part in stored.kept}
    return formula(parts, _quantisation(checkpoint.config.data))


def _name(checkpoint: Checkpoint, stored: Stored, part: str) -> str:
    """Name of a weight's own tensor or of its companion, by the custom of releases."""
    names = [f"{stored.name}{suffix}" for suffix in COMPANIONS.get(part, ())]
    return next((name for name in names if name in checkpoint.headers), stored.parts[part].name)


def _quantisation(config: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = config.get("text_config")
    found = config.get("quantization_config") or (nested.get("quantization_config") if isinstance(nested, dict) else None)
    return found if isinstance(found, dict) else {}


def _load(checkpoint: Checkpoint, name: str, rows: slice | None) -> Tensor:
    from safetensors import safe_open  # the library of the container's authors

    with safe_open(checkpoint.folder / checkpoint.headers[name].file, framework="pt") as file:
        return file.get_tensor(name) if rows is None else file.get_slice(name)[rows]


def _plain(parts: Mapping[str, Tensor], _said: Mapping[str, Any]) -> tuple[Tensor, str]:
    return parts["data"].float(), "safetensors"


def _fp8_block(parts: Mapping[str, Tensor], said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """Every element times the scale of the block it lies in (DeepSeek-V3, arXiv 2412.19437, §3.3), element by element."""
    codes, scales = parts["data"], parts["scale"]
    height, width = said.get("weight_block_size") or (128, 128)
    row = torch.arange(codes.shape[-2]) // height
    column = torch.arange(codes.shape[-1]) // width
    return _e4m3(codes) * _scale(scales)[..., row[:, None], column[None, :]], "safetensors and fp8 by its definition"


def _e4m3(codes: Tensor) -> Tensor:
    """Sign, four bits of exponent with bias 7, three of mantissa; no infinity, all ones is NaN (arXiv 2209.05433, table 1)."""
    code = codes.view(torch.uint8).int()
    exponent, mantissa = (code >> 3) & 15, (code & 7).float()
    normal = torch.ldexp(1 + mantissa / 8, exponent - 7)
    value = torch.where(exponent == 0, mantissa / 512, normal)
    value = torch.where((code & 127) == 127, torch.nan, value)
    return torch.where(code > 127, -value, value)


def _fp8(parts: Mapping[str, Tensor], _said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """Every element times the one scale, that of its expert, or that of its row."""
    codes, scale = parts["data"], parts["scale"].float()
    if scale.numel() > 1 and scale.ndim < codes.ndim:  # [O] for a matrix, [E] for a stack
        scale = scale.reshape(*scale.shape, *[1] * (codes.ndim - scale.ndim))
    return _e4m3(codes) * scale.reshape(scale.shape if scale.numel() > 1 else ()), "safetensors and fp8 by its definition"


def _mxfp8(parts: Mapping[str, Tensor], _said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """Every code times the power of two of its 32 (OCP Microscaling Formats 1.0, §5.1)."""
    codes = parts["data"]
    return _e4m3(codes) * _scale(parts["scale"])[..., torch.arange(codes.shape[-1]) // 32], "safetensors and MXFP8 by its definition"


def _mxfp4(parts: Mapping[str, Tensor], _said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """The same with E2M1 codes, two a byte; blocks may have an axis of their own."""
    values = packed.e2m1(parts["data"].view(torch.uint8))
    scales = _scale(parts["scale"])
    values = values.reshape(*scales.shape[:-1], -1)
    return values * scales[..., torch.arange(values.shape[-1]) // 32], "safetensors and MXFP4 by its definition"


def _nvfp4(parts: Mapping[str, Tensor], _said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """E2M1 codes times the E4M3 scale of their 16, times one factor (or over one divisor) for the whole weight or expert."""
    values = packed.e2m1(parts["data"].view(torch.uint8))
    values = values * _e4m3(parts["scale"])[..., torch.arange(values.shape[-1]) // 16]
    single = parts["factor" if "factor" in parts else "divisor"].float().flatten()
    single = single.reshape(-1, *[1] * (values.ndim - 1)) if single.numel() > 1 else single.reshape(())
    return (values * single if "factor" in parts else values / single), "safetensors and NVFP4 by its definition"


def _scale(scales: Tensor) -> Tensor:
    """Scales as float32; an e8m0 byte b is 2 to the power b - 127."""
    if scales.element_size() == 1:
        byte = scales.view(torch.uint8).int()
        return torch.where(byte == 255, torch.nan, torch.ldexp(torch.ones_like(byte, dtype=torch.float32), byte - 127))
    return scales.float()


COMPANIONS = {  # part → what stands behind the weight's name
    "data": ("_packed", ""), "scale": ("_scale_inv", "_scale"), "factor": ("_scale_2",), "divisor": ("_global_scale",),
    "shape": ("_shape",), "zeros": ("_zero_point",), "group_of": ("_g_idx",),
}  # fmt: skip
FORMULAS: Mapping[str, Callable[[Mapping[str, Tensor], Mapping[str, Any]], tuple[Tensor, str]]] = {
    "plain": _plain, "fp8_block": _fp8_block, "fp8": _fp8, "mxfp8": _mxfp8, "mxfp4": _mxfp4, "nvfp4": _nvfp4, "int4": packed.int4,
    "gptq": packed.gptq, "awq": packed.awq,
}  # fmt: skip
