"""Embedding and head of the reference without their tables in memory: the rows that are needed are read when they are."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from day0.checkpoint.folder import Checkpoint
from day0.engine.loading import copy
from day0.spec.format import Stored

ROWS = 4096  # of the head, in memory at a time


def stream_ends(model: Any, checkpoint: Checkpoint, sources: dict[str, Stored], dtype: torch.dtype, device: torch.device) -> set[str]:
    """Parameters that need not be loaded, because their modules now read rows of `sources` (parameter → released tensor).

    Tables that are packed, and modules that do more than look up or multiply, stay as they are.
    """
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    paths = {module: f"{name}.weight" for name, module in model.named_modules() if module in (embedding, head)}
    table = sources.get(paths[embedding])
    matrix = table if model.config.get_text_config().tie_word_embeddings else sources.get(paths.get(head, ""))
    plain = all(stored is not None and stored.format == "plain" for stored in (table, matrix))
    if not plain or type(embedding) is not nn.Embedding or type(head) is not nn.Linear or head.bias is not None:
        return set()
    assert table is not None and matrix is not None
    embedding.forward = _Lookup(checkpoint, table, dtype, device)
    head.forward = _Product(checkpoint, matrix, dtype, device)
    for module in (embedding, head):  # classes ask the table where it lies: no memory, but a device
        module.weight = nn.Parameter(torch.zeros((), dtype=dtype, device=device).expand(module.weight.shape), requires_grad=False)
    return {paths[embedding], paths[head]}


class _Rows:
    """Rows of one released matrix in one type."""

    def __init__(self, checkpoint: Checkpoint, stored: Stored, dtype: torch.dtype, device: torch.device) -> None:
        self._folder, self._stored, self._dtype, self._device = checkpoint.folder, stored, dtype, device

    def read(self, start: int, count: int) -> Tensor:
        """[count, D]."""
        width = self._stored.shape[1]
        out = torch.empty(count, width, dtype=self._dtype, device=self._device)
        copy(self._folder, self._stored.parts["data"], out, start * width)
        return out


class _Lookup(_Rows):
    """What `nn.Embedding` gives."""

    def __call__(self, ids: Tensor) -> Tensor:
        unique, places = ids.unique(return_inverse=True)
        return torch.cat([self.read(token, 1) for token in unique.tolist()])[places]


class _Product(_Rows):
    """What `nn.Linear` gives."""

    def __call__(self, hidden: Tensor) -> Tensor:
        rows = self._stored.shape[0]
        return torch.cat([functional.linear(hidden, self.read(i, min(ROWS, rows - i))) for i in range(0, rows, ROWS)], dim=-1)
