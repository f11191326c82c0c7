"""A second opinion on packed weights: each format's definition, written out element by element in float64.

Nothing here shares code with `day0.formats`. Every formula takes the stored parts and what the configuration says, and gives float32.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Parts = Mapping[str, Tensor]
SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def formula(form: str) -> Callable[[Parts, Mapping[str, Any]], tuple[Tensor, str]] | None:
    """The formula of a packed format, None where there is none."""
    values = VALUES.get(form)
    if values is None:
        return None
    return lambda parts, said: (values(parts, said).float(), f"safetensors and {form} by its definition")


def _mxfp4(parts: Parts, _said: Mapping[str, Any]) -> Tensor:
    data = parts["data"].flatten(-2) if parts["data"].ndim > parts["scale"].ndim else parts["data"]
    return _fp4(data) * _of_column(_power(parts["scale"]), 2 * data.shape[-1], 32)


def _mxfp8(parts: Parts, _said: Mapping[str, Any]) -> Tensor:
    return parts["data"].double() * _of_column(_power(parts["scale"]), parts["data"].shape[-1], 32)


def _nvfp4(parts: Parts, _said: Mapping[str, Any]) -> Tensor:
    number = parts["factor"].double() if "factor" in parts else 1 / parts["divisor"].double()
    values = _fp4(parts["data"]) * _of_column(parts["scale"].double(), 2 * parts["data"].shape[-1], 16)
    return values * (number.reshape(-1, *(1,) * (values.ndim - 1)) if number.numel() > 1 else number.reshape(()))


def _fp8(parts: Parts, _said: Mapping[str, Any]) -> Tensor:
    data, scale = parts["data"].double(), parts["scale"].double()
    if data.ndim == 2:
        return data * (scale.reshape(-1, 1) if scale.numel() > 1 else scale.reshape(()))
    return data * (scale if scale.ndim == data.ndim else scale.reshape(-1, 1, 1))


def _int4(parts: Parts, said: Mapping[str, Any]) -> Tensor:
    rows, columns = parts["shape"].tolist()
    codes = _nibbles(parts["data"], torch.arange(columns))
    zeros = _nibbles(parts["zeros"].T, torch.arange(rows)).T if "zeros" in parts else torch.full(parts["scale"].shape, 8)
    order = parts.get("group_of")
    usable = order is not None and int(order.min()) >= 0
    group = order.long() if usable and order is not None else torch.arange(columns) // _group(said, columns, zeros.shape[1])
    return (codes - zeros[:, group]) * parts["scale"].double()[:, group]


def _awq(parts: Parts, said: Mapping[str, Any]) -> Tensor:
    rows = parts["scale"].shape[1]
    place = torch.arange(rows) // 8 * 8 + torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]).repeat(rows // 8)
    return _turned(_nibbles(parts["data"], place), _nibbles(parts["zeros"], place), parts, said)


def _gptq(parts: Parts, said: Mapping[str, Any]) -> Tensor:
    words, rows = parts["data"].shape
    stored = parts["zeros"] if "zeros" in parts else parts["zeros_less_one"]
    zeros = _nibbles(stored, torch.arange(rows)) + (0 if "zeros" in parts else 1)
    return _turned(_nibbles(parts["data"].T, torch.arange(words * 8)).T, zeros, parts, said)


def _turned(codes: Tensor, zeros: Tensor, parts: Parts, said: Mapping[str, Any]) -> Tensor:
    """Codes [I, O] and zeros [G, O] → [O, I]."""
    inputs, groups = codes.shape[0], zeros.shape[0]
    group = parts["group_of"].long() if "group_of" in parts else torch.arange(inputs) // _group(said, inputs, groups)
    return ((codes - zeros[group]) * parts["scale"].double()[group]).T.contiguous()


def _group(said: Mapping[str, Any], inputs: int, groups: int) -> int:
    """Inputs that share a scale: as stated where that gives the number of groups, else the least power of two that does, else all."""
    entries = said.get("config_groups")
    inner = [entry.get("weights") or {} for entry in entries.values()] if isinstance(entries, dict) else []
    stated = [entry.get("group_size") for entry in (said, *inner)]
    whole = [size for size in stated if isinstance(size, int) and size > 0]
    return next((size for size in (*whole, *(1 << bits for bits in range(31))) if -(-inputs // size) == groups), inputs)


def _nibbles(words: Tensor, place: Tensor) -> Tensor:
    """Four bits at each place of rows of words, the lowest first."""
    word = words.long()[..., place // 8]
    return (word >> (place % 8 * 4)) & 15


def _fp4(data: Tensor) -> Tensor:
    byte = data.view(torch.uint8).long()
    codes = torch.stack((byte & 15, byte >> 4), -1).flatten(-2)
    size = torch.tensor(SIZES, dtype=torch.float64)[codes & 7]
    return torch.where(codes > 7, -size, size)


def _power(scale: Tensor) -> Tensor:
    byte = scale.view(torch.uint8).int()
    return torch.where(byte == 255, torch.nan, torch.ldexp(torch.ones(byte.shape, dtype=torch.float64), byte - 127))


def _of_column(scale: Tensor, columns: int, group: int) -> Tensor:
    return scale[..., torch.arange(columns) // group]


VALUES: Mapping[str, Callable[[Parts, Mapping[str, Any]], Tensor]] = {
    "mxfp4": _mxfp4, "mxfp8": _mxfp8, "nvfp4": _nvfp4, "fp8": _fp8, "int4": _int4, "awq": _awq, "gptq": _gptq,
}  # fmt: skip
