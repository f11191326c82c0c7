"""Shards and folders of the right size that take no room on disk: headers are written, data is a hole."""

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from day0.spec.finding import Finding

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "F8_E8M0": 8, "U8": 8, "I8": 8, "I32": 32, "I64": 64, "F64": 64, "F4": 4}
Tensor = tuple[str, list[int]]  # dtype, shape


def write_header(path: Path, header: str, data: int = 0) -> None:
    """A file with this header text, then `data` bytes of nothing."""
    text = header.encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + data)


def entries(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], int]:
    """Sound header entries one after the other, and where they end."""
    found, offset = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = offset + prod(shape) * BITS[dtype] // 8
        found[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    return found, offset


def write_shard(path: Path, tensors: Mapping[str, Tensor], *, cut: int = 0, tail: int = 0) -> int:
    """A sound shard, `cut` bytes short or `tail` bytes too long; returns its bytes of data."""
    header, size = entries(tensors)
    text = json.dumps(header)
    write_header(path, text + " " * (-len(text) % 8), size - cut + tail)
    return size


def write_release(folder: Path, shards: list[Mapping[str, Tensor]], config: Mapping[str, Any] | None = None) -> dict[str, str]:
    """config.json, shards and their index; returns the weight map."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "none"}))
    total, weight_map = 0, {}
    for number, tensors in enumerate(shards, 1):
        name = shard_name(number, len(shards))
        total += write_shard(folder / name, tensors)
        weight_map |= dict.fromkeys(tensors, name)
    write_index(folder, weight_map, total)
    return weight_map


def write_index(folder: Path, weight_map: Mapping[str, str], total: int) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))


def shard_name(number: int, of: int) -> str:
    return f"model-{number:05d}-of-{of:05d}.safetensors"


def told(findings: Any) -> list[tuple[str, str, str]]:
    """(code, status, subject) of each."""
    return [(finding.code, finding.status, finding.subject) for finding in findings]


def only(findings: Any) -> Finding:
    """The one finding that there is."""
    (found,) = findings
    return found  # type: ignore[no-any-return]
