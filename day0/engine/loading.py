"""Bytes of the released files into the tensors that the engine computes with: converted, stacked and cut while they are read."""

from dataclasses import replace
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from day0.checkpoint.bytes import read
from day0.engine.footprint import Buffer, part_cuts, rest_dtype
from day0.engine.packed import Group
from day0.engine.release import Located
from day0.spec.errors import Day0Error
from day0.spec.format import Stored, TensorHeader
from day0.spec.lazy import torch_dtype
from day0.spec.names import Cut
from day0.spec.packed import Packed
from day0.spec.registry import formats

STAGING = 4 << 20  # bytes that are read at once when they cannot go straight to their place


def views(buffer: Tensor, layout: Buffer) -> dict[tuple[str, str], Tensor]:
    """(name, part) → the tensor at its place in a buffer of bytes."""
    return {(s.name, s.part): buffer[s.start : s.start + s.bytes].view(torch_dtype(s.dtype)).view(s.shape) for s in layout.slices}


def fill(folder: Path, located: Located, part: str, out: Tensor) -> None:
    """Read one weight (or one part of a packed one) into `out`, expert by expert where they are stored so."""
    for index, (piece, stored) in enumerate(located.pieces):
        target = out[index] if located.stacked else out
        section = part_cuts(stored, piece.cut).get(part) if part else piece.cut
        if section is None:
            copy(folder, stored.parts[part or "data"], target)
        else:
            copy_cut(folder, stored.parts[part or "data"], section, target)


def copy_cut(folder: Path, header: TensorHeader, section: Cut, out: Tensor) -> None:
    """Read the part of a tensor that one weight is; nothing else of it where the bytes of that part lie side by side."""
    axis = section.axis % len(header.shape)
    if section.padded:
        copy(folder, header, out)
    elif axis == 0 and not section.interleaved:
        count = header.shape[0] // section.of
        own = rows(header, section.part * count, count)
        assert out.numel() == prod(own.shape), f"{header.name}: {list(own.shape)} into {list(out.shape)}"
        if section.transpose:
            out.copy_(_whole(folder, own).transpose(-1, -2))
        else:
            copy(folder, own, out)
    elif axis == 0 or len(header.shape) < 3:
        out.copy_(cut(_whole(folder, header), section))
    else:
        inner = replace(section, axis=axis - 1)
        for index, target in enumerate(out):
            copy_cut(folder, entry(header, index), inner, target)


def rows(header: TensorHeader, start: int, count: int) -> TensorHeader:
    """Some entries of a tensor's first axis, as a tensor of its own."""
    step = header.bytes // header.shape[0]
    begin = header.start + start * step
    return header._replace(shape=(count, *header.shape[1:]), start=begin, end=begin + count * step)


def entry(header: TensorHeader, index: int) -> TensorHeader:
    """One entry of a tensor's first axis, without that axis."""
    return rows(header, index, 1)._replace(shape=header.shape[1:])


def copy(folder: Path, header: TensorHeader, out: Tensor, offset: int = 0) -> None:
    """Read elements of one tensor, from element `offset` on, into `out`: straight there where type and device allow, else in pieces."""
    kind = torch_dtype(header.dtype)
    flat = out.view(-1) if out.is_contiguous() else None
    if flat is not None and out.dtype == kind and out.device.type == "cpu":
        read(folder, header, _memory(flat), offset * kind.itemsize)
        return
    assert flat is not None
    step = max(1, STAGING // kind.itemsize)
    staging = torch.empty(min(step, max(1, flat.numel())), dtype=kind)
    for start in range(0, flat.numel(), step):
        piece = staging[: min(step, flat.numel() - start)]
        read(folder, header, _memory(piece), (offset + start) * kind.itemsize)
        flat[start : start + piece.numel()].copy_(piece)


def decoded(folder: Path, stored: Stored, dtype: torch.dtype) -> Tensor:
    """One checkpoint weight, whole and decoded, on the CPU."""
    form = formats().get(stored.format)
    if not form.packed:
        return _whole(folder, stored.parts["data"]).to(dtype)
    parts = {name: _whole(folder, header) for name, header in stored.kept.items()}
    shape = stored.shape
    if stored.slack and 0 <= shape[-1] - int(parts["shape"][-1]) <= stored.slack:
        shape = (*shape[:-1], int(parts["shape"][-1]))
    _confirm(folder, stored, parts, shape)
    out = torch.empty(shape, dtype=dtype)
    form.decode(parts, stored.block, out)
    return out


def confirm(folder: Path, located: Located, parts: dict[str, Tensor]) -> None:
    """Day0Error when values of a packed weight's companions contradict one another or the model."""
    _confirm(folder, located.pieces[0][1], parts, located.whole)


def _confirm(folder: Path, stored: Stored, parts: dict[str, Tensor], shape: tuple[int, ...]) -> None:
    form = formats().get(stored.format)
    wrong = form.confirm(parts, shape) if form.confirm else None
    if wrong:
        raise Day0Error(f"{stored.name}: {wrong}", folder / stored.parts["data"].file, hint="download the shard again")


def cut(source: Tensor, c: Cut) -> Tensor:
    """The part of a checkpoint tensor that one canonical tensor is."""
    size = source.shape[c.axis] // c.of
    if c.interleaved:
        index = torch.arange(c.part, source.shape[c.axis], c.of)
        piece = source.index_select(c.axis, index)
    else:
        piece = source.narrow(c.axis, c.part * size, size)
    return piece.transpose(-1, -2) if c.transpose else piece


def assemble(weights: dict[str, Located], tensors: dict[tuple[str, str], Tensor], dtype: torch.dtype) -> Any:
    """Weights of a layer as attributes: `w.mixer.q`, `w.ffn.experts.gate`; and their groups: `w.mixer.qkv`."""
    values = {}
    for name, located in weights.items():
        form = formats().get(located.format)
        value: Any = tensors.get((name, ""))
        if form.packed:
            parts = {part: tensor for (other, part), tensor in tensors.items() if other == name}
            bank = located.spec.role == "expert"
            section, kind = located.pieces[0][0].cut, torch_dtype(rest_dtype(located.spec.precision, str(dtype).removeprefix("torch.")))
            turned = section is not None and section.transpose
            value = Packed(located.format, parts, located.pieces[0][1].block, located.spec.shape, kind, bank, turned)
        values[name] = value
    return named(weights, values)


def named(weights: dict[str, Located], values: dict[str, Any]) -> Any:
    """The same of what the weights are: `w.mixer.q`, `w.mixer.qkv`."""
    root = SimpleNamespace()
    for name, value in values.items():
        place(root, name, value)
    for name, members in grouped(weights).items():
        place(root, name, Group.of(tuple(values[member] for member in members)))
    return root


def grouped(weights: dict[str, Located]) -> dict[str, list[str]]:
    """Name of each group → its members, in order."""
    groups: dict[str, list[str]] = {}
    for name, located in weights.items():
        if located.spec.group:
            prefix = name[: len(name) - len(located.spec.name.rpartition(".")[2])]
            groups.setdefault(prefix + located.spec.group.rpartition(".")[2], []).append(name)
    return groups


def place(root: SimpleNamespace, name: str, value: Any) -> None:
    """Set the attribute that a dotted name means."""
    *path, leaf = name.split(".")
    for step in path:
        if not hasattr(root, step):
            setattr(root, step, SimpleNamespace())
        root = getattr(root, step)
    setattr(root, leaf, value)


def _whole(folder: Path, header: TensorHeader) -> Tensor:
    out = torch.empty(header.shape, dtype=torch_dtype(header.dtype))
    read(folder, header, _memory(out))
    return out


def _memory(tensor: Tensor) -> memoryview:
    return memoryview(tensor.view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
