"""What sparse attention of transformers chose to read: seen, forced, and put into our form."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

INDEXER = "indexer"  # what classes call the module that returns the choice
HANDED = "prev_topk_indices"  # argument of decoder layers that hand a choice on to the next layer


@contextmanager
def noted(layer: nn.Module, forced: Tensor | None = None) -> Iterator[list[Tensor]]:
    """Collect what the indexer of `layer` returns; with `forced`, that is what attention receives instead."""
    seen: list[Tensor] = []

    def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor | None:
        seen.append(output)
        return forced

    modules = [module for name, module in layer.named_modules() if name.rpartition(".")[2] == INDEXER]
    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def read(raw: Tensor | None) -> Tensor | None:
    """The choice of one sequence, [1, T, K] or [1, N, T, K] → [T, K] or [T, N, K], int64, ascending; -1 is none, and last.

    Numbers of tokens, entries or blocks: none of them is larger than the position of the token that reads, so what is larger fills a gap.
    Classes that say it as a mask, [1, N, T, S], true where a token is read, are understood too.
    """
    if raw is None:
        return None
    if raw.dtype == torch.bool:
        places = torch.arange(raw.shape[-1], device=raw.device).expand(raw.shape)
        raw = ascending(places.masked_fill(~raw, -1))
    chosen = raw[0].long().transpose(0, 1) if raw.dim() == 4 else raw[0].long()
    positions = torch.arange(len(chosen), device=chosen.device).view(-1, *[1] * (chosen.dim() - 1))
    return ascending(chosen.masked_fill(chosen > positions, -1))


def ascending(chosen: Tensor) -> Tensor:
    """The same numbers in order, -1 last."""
    last = torch.iinfo(torch.int64).max
    ordered = chosen.masked_fill(chosen < 0, last).sort(-1).values
    return ordered.masked_fill(ordered == last, -1)


def differing(ours: Tensor, theirs: Tensor) -> tuple[int, int, int]:
    """(numbers of the reference's that ours lacks, numbers of the reference's, tokens with any)."""
    lacking = ~(theirs[..., :, None] == ours[..., None, :]).any(-1) & (theirs >= 0)
    return int(lacking.sum()), int((theirs >= 0).sum()), int(lacking.flatten(1).any(-1).sum())
