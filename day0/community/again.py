"""Weights of a release read once more, by the safetensors library, and decoded as their formats are defined: no code of the engine's reads them.

The exception are banks of packed experts that are stored as one tensor too large to be decoded whole: of these the engine's own code reads one
expert at a time, when it is asked for, from the files.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from day0.community.compare_held import LARGEST, stored_value
from day0.community.decode import independent
from day0.engine import loading
from day0.engine.footprint import rest_dtype
from day0.engine.on_demand import OnDemand, can_wait
from day0.engine.release import Located, Release
from day0.spec.lazy import torch_dtype


def again(release: Release, index: int, dtype: torch.dtype, device: torch.device) -> Any:
    """One layer: `w.mixer.q`; experts that are stored one by one are read when they are asked for."""
    group = release.layer(index)
    values = {name: _value(release, located, dtype, device) for name, located in group.items()}
    for names in loading.grouped(group).values():
        members = [values[name] for name in names]
        if all(isinstance(one, Tensor) and one.dtype == members[0].dtype and one.shape[1:] == members[0].shape[1:] for one in members):
            values |= zip(names, torch.cat(members).split([len(one) for one in members]), strict=True)
    return loading.named(group, values)


def rows(release: Release, located: Located, start: int, count: int, dtype: torch.dtype) -> Tensor | None:
    """Some rows of the embedding table or the head; None where they are packed or a part of another tensor."""
    piece, stored = located.pieces[0]
    if stored.format != "plain" or piece.cut is not None:
        return None
    found = independent(release.checkpoint, stored, slice(start, start + count))
    return None if found is None else found[0].to(dtype)


def _value(release: Release, located: Located, dtype: torch.dtype, device: torch.device) -> Any:
    kind = torch_dtype(rest_dtype(located.spec.precision, str(dtype).removeprefix("torch.")))
    if located.spec.precision == "integer":
        return _integers(release, located).to(device, kind)
    if can_wait(located) and not located.stacked and located.spec.count > LARGEST:
        return OnDemand.of(located, release.folder, dtype)
    bank = _Bank(release, located, kind, device)
    if located.spec.role == "expert" and located.stacked:
        return bank
    return torch.stack([bank[e] for e in range(len(located.pieces))]) if located.stacked else bank[0]


def _integers(release: Release, located: Located) -> Tensor:
    """A table of whole numbers, which float32 would round."""
    from safetensors import safe_open

    header = located.pieces[0][1].parts["data"]
    with safe_open(release.folder / header.file, framework="pt") as file:
        return file.get_tensor(header.name).reshape(located.spec.shape)


@dataclass(frozen=True)
class _Bank:
    """Stored tensors of one weight, each decoded when it is asked for."""

    release: Release
    located: Located
    dtype: torch.dtype
    device: torch.device

    def __getitem__(self, e: int) -> Tensor:
        found, shape = stored_value(self.release.checkpoint, self.located, e), self.located.spec.shape
        assert found is not None, f"{self.located.name}: {self.located.format} has no second definition"
        return found.reshape(shape[1:] if self.located.stacked else shape).to(self.device, self.dtype)
