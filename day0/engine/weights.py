"""Weights of a release in memory: all of them, or one layer while the next one is read."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch import Tensor

from day0.engine import footprint, loading
from day0.engine.heap import use_huge_pages
from day0.engine.release import Located, Release
from day0.spec.errors import Day0Error
from day0.spec.lazy import torch_dtype
from day0.spec.progress import Progress, silent
from day0.spec.registry import formats


class Weights(Protocol):
    """What a forward pass asks for."""

    bytes: dict[str, int]  # allocation → bytes, as the plan names them
    read: int  # bytes taken from files since it was opened
    ends: Any  # small weights outside the layers: `ends.norm`, `ends.collapse`

    def layers(self) -> Iterator[Any]:
        """Weights of each layer, in order, valid until the next one is asked for."""

    def table(self, tokens_T: Tensor) -> tuple[Any, Tensor]:
        """A table and row numbers in it, such that the rows are the tokens' embeddings."""

    def head(self) -> Iterator[Any]:
        """The head's rows, in one piece or several."""


def open_weights(release: Release, dtype: str, residency: str, device: torch.device, progress: Progress = silent) -> Weights:
    """Read what the residency keeps in memory."""
    kind = Resident if residency == "resident" else Streamed
    return kind(release, dtype, device, progress)


class Resident:
    """Everything is in memory: one allocation a layer and one for the ends."""

    def __init__(self, release: Release, dtype: str, device: torch.device, progress: Progress = silent) -> None:
        layers = range(len(release.model.layers))
        groups = [release.layer(i) for i in layers] + [release.ends()]
        layouts = [footprint.buffer(group, dtype) for group in groups]
        buffers = [_allocate(layout.bytes, device) for layout in layouts]
        use_huge_pages(buffers)
        self._groups = []
        self.read = 0
        for done, (group, layout, buffer) in enumerate(zip(groups, layouts, buffers, strict=True)):
            progress("reading weights", done, len(groups))
            self._groups.append(load(release, group, layout, buffer, dtype))
            self.read += _stored(group)
        progress("reading weights", len(groups), len(groups))
        sizes = [layout.bytes for layout in layouts]
        self.bytes = {"layers": sum(sizes[:-1]), "ends": sizes[-1]}
        self.ends = self._groups.pop()
        self._head = self.ends.embed if release.model.tied else self.ends.head

    def layers(self) -> Iterator[Any]:
        return iter(self._groups)

    def table(self, tokens_T: Tensor) -> tuple[Any, Tensor]:
        return self.ends.embed, tokens_T

    def head(self) -> Iterator[Any]:
        yield self._head


class Streamed:
    """Two layers are in memory: the one that runs and the one that is being read; of the ends only what a step needs."""

    def __init__(self, release: Release, dtype: str, device: torch.device, progress: Progress = silent) -> None:
        self._release, self._dtype, self._device = release, dtype, device
        self._count = len(release.model.layers)
        self._layouts = [footprint.buffer(release.layer(i), dtype) for i in range(self._count)]
        self.bytes = footprint.weights(release, dtype, "streamed")
        size = max(layout.bytes for layout in self._layouts)
        self._slots = [_allocate(size, device) for _ in range(min(footprint.READ_AHEAD, self._count))]
        ends = release.ends()
        small = {name: located for name, located in ends.items() if located.spec.role not in ("embed", "head")}
        layout = footprint.buffer(small, dtype)
        self.ends = load(release, small, layout, _allocate(layout.bytes, device), dtype)
        self._embed, self._head = ends["embed"], ends["embed" if release.model.tied else "head"]
        for located in (self._embed, self._head):
            if formats().get(located.format).packed:
                raise Day0Error(f"{located.name} is packed as {located.format}: its rows cannot be streamed", release.folder)
        self._rows = _allocate(self.bytes["head rows"], device)
        self.read = _stored(small)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._turn = 0
        self._ahead: tuple[int, Future[Any]] = self._submit(0)

    def layers(self) -> Iterator[Any]:
        """Layer by layer; while one runs the next is read, after the last the first one again."""
        for i in range(self._count):
            expected, future = self._ahead
            if expected != i:  # an earlier pass was not finished
                future.result()
                expected, future = self._submit(i)
            weights = future.result()
            if self._count > 1:
                self._ahead = self._submit((i + 1) % self._count)
            yield weights

    def table(self, tokens_T: Tensor) -> tuple[Any, Tensor]:
        """Rows of the tokens that occur, read for this step."""
        unique, rows_T = tokens_T.unique(return_inverse=True)
        table = torch.empty(len(unique), self._release.model.hidden, dtype=torch_dtype(self._dtype), device=self._device)
        for row, token in enumerate(unique.tolist()):
            self._copy_rows(self._embed, token, table[row : row + 1])
        return table, rows_T

    def head(self) -> Iterator[Any]:
        vocab, hidden = self._release.model.vocab, self._release.model.hidden
        kind = torch_dtype(self._dtype)
        for start in range(0, vocab, footprint.HEAD_ROWS):
            count = min(footprint.HEAD_ROWS, vocab - start)
            rows = self._rows[: count * hidden * kind.itemsize].view(kind).view(count, hidden)
            self._copy_rows(self._head, start, rows)
            yield rows

    def _submit(self, layer: int) -> tuple[int, Future[Any]]:
        slot = self._slots[self._turn % len(self._slots)]
        self._turn += 1
        return layer, self._reader.submit(self._read, layer, slot)

    def _copy_rows(self, located: Located, start: int, out: Tensor) -> None:
        data = located.pieces[0][1].parts["data"]
        loading.copy(self._release.folder, data, out, start * self._release.model.hidden)
        self.read += len(out) * (data.bytes // data.shape[0])

    def _read(self, layer: int, slot: Tensor) -> Any:
        group = self._release.layer(layer)
        self.read += _stored(group)
        return load(self._release, group, self._layouts[layer], slot, self._dtype)


def _stored(group: dict[str, Located]) -> int:
    """Bytes on disk; of a tensor that holds several weights each has its share."""
    total = 0
    for located in group.values():
        cut = located.pieces[0][0].cut
        total += sum(stored.bytes * count for stored, count in located.alike) // (cut.of if cut else 1)
    return total


def _allocate(size: int, device: torch.device) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def load(release: Release, group: dict[str, Located], layout: footprint.Buffer, buffer: Tensor, dtype: str) -> Any:
    """Fill `buffer` with the weights of one layer (or of the ends) and name them: `w.mixer.q`."""
    tensors = loading.views(buffer, layout)
    for (name, part), tensor in tensors.items():
        loading.fill(release.folder, group[name], part, tensor)
    for name, located in group.items():
        if formats().get(located.format).confirm:
            loading.confirm(release.folder, located, {part: tensor for (other, part), tensor in tensors.items() if other == name})
    return loading.assemble(group, tensors, torch_dtype(dtype))
