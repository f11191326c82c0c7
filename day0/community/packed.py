"""Codes of four bits by their definitions, one code at a time along an axis of its own."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

NIBBLES = tuple(range(8))  # of a word of 32 bits, from the lowest
INTERLEAVED = (0, 2, 4, 6, 1, 3, 5, 7)  # AWQ: output in each nibble, from the lowest


def e2m1(data: Tensor) -> Tensor:
    """Bytes [..., N] → values [..., 2N], low half first: sign, two bits of exponent with bias 1, one of mantissa (OCP, §5.3.3)."""
    codes = torch.stack((data % 16, data // 16), dim=-1).flatten(-2).int()
    exponent, mantissa = codes // 2 % 4, (codes % 2).float()
    size = torch.where(exponent == 0, mantissa / 2, torch.ldexp(1 + mantissa / 2, exponent - 1))
    return torch.where(codes >= 8, -size, size)


def nibbles(words: Tensor) -> Tensor:
    """Words [...] → codes [..., 8], lowest first."""
    unsigned = words.long() % (1 << 32)
    return torch.stack([unsigned // 16**n % 16 for n in NIBBLES], dim=-1)


def int4(parts: Mapping[str, Tensor], _said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """compressed-tensors, pack-quantized: (code - zero) · scale of the group of its input, eight inputs a word; zero is 8 or stored."""
    rows, columns = parts["shape"].reshape(-1, parts["shape"].shape[-1])[0, -2:].tolist()
    codes = nibbles(parts["data"]).flatten(-2)[..., :columns]
    scale = parts["scale"].float()
    group = _groups(parts.get("group_of"), columns, scale.shape[-1], codes.shape[-1], _said)
    zero: Any = 8
    if "zeros" in parts:
        zero = nibbles(parts["zeros"].transpose(-1, -2)).flatten(-2).transpose(-1, -2)[..., :rows, :][..., group]
    return (codes - zero).float() * scale[..., group], "safetensors and 4-bit integers by their definition"


def gptq(parts: Mapping[str, Tensor], said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """Turned: eight inputs a word, (code - zero) · scale; the first version stores zero - 1."""
    codes = nibbles(parts["data"]).transpose(1, 2).flatten(0, 1)
    stored = next(parts[part] for part in ("zeros", "zeros_less_one") if part in parts)
    zeros = nibbles(stored).flatten(1) + ("v2" not in str(said.get("checkpoint_format")) and "zeros" not in parts)
    scale = parts["scale"].float()
    group = _groups(parts.get("group_of"), len(codes), len(scale), len(codes), said)
    return ((codes - zeros[group]).float() * scale[group]).T, "safetensors and GPTQ by its definition"


def awq(parts: Mapping[str, Tensor], said: Mapping[str, Any]) -> tuple[Tensor, str]:
    """Turned: eight outputs a word in an order of their own, (code - zero) · scale."""
    place = torch.tensor(INTERLEAVED).argsort()
    codes, zeros = (nibbles(parts[part])[..., place].flatten(1) for part in ("data", "zeros"))
    scale = parts["scale"].float()
    group = _groups(None, len(codes), len(scale), len(codes), said)
    return ((codes - zeros[group]).float() * scale[group]).T, "safetensors and AWQ by its definition"


def _groups(stored: Tensor | None, inputs: int, groups: int, room: int, said: Mapping[str, Any]) -> Tensor:
    """Group of each input: as stored, else one after the other, as large as the configuration says or as they divide."""
    if stored is not None and int(stored.min()) >= 0:
        return stored.long()
    sizes = [size for size in _sizes(said) if -(-inputs // size) == groups]
    return torch.arange(inputs) // (sizes[0] if sizes else -(-inputs // groups))


def _sizes(said: Any) -> list[int]:
    """Every "group_size" of a configuration, at any depth."""
    if not isinstance(said, Mapping):
        return []
    own = said.get("group_size")
    here = [own] if isinstance(own, int) and own > 0 else []
    return here + [size for value in said.values() for size in _sizes(value)]
