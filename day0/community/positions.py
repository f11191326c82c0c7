"""Which positions each token reads in sparse attention: what a module of transformers chose, or is told to take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

REUSED = "prev_topk_indices"  # argument by which layers hand a choice on


class Read:
    """The choice of the layer that ran last."""

    def __init__(self) -> None:
        self._chosen: Tensor | None = None  # [1, T, K], as the class writes it

    @contextmanager
    def watched(self, layer: nn.Module, indices_TK: Tensor | None) -> Iterator[None]:
        """Write down what the layer's indexer chooses, or replace it."""
        if indices_TK is not None:  # the class has no word for none: an index that is there already chooses nothing more
            self._chosen = indices_TK.where(indices_TK >= 0, indices_TK[:, :1])[None].to(torch.int32)

        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            if indices_TK is None:
                self._chosen = output
            assert self._chosen is not None
            return self._chosen.to(output)

        indexer = indexer_of(layer)
        handle = indexer.register_forward_hook(hook) if indexer else None
        try:
            yield
        finally:
            if handle:
                handle.remove()

    def given(self, arguments: dict[str, Any], tokens: int) -> dict[str, Any]:
        """Arguments of a layer that runs alone: the choice that it may reuse is the last one, or all tokens where there is none."""
        if REUSED not in arguments:
            return arguments
        if self._chosen is None or self._chosen.shape[1] != tokens:
            self._chosen = torch.arange(tokens, dtype=torch.int32).expand(1, tokens, tokens)
        return {**arguments, REUSED: self._chosen}

    def positions(self, layer: nn.Module, tokens: int) -> Tensor | None:
        """[T, K] in ascending order, -1 for none; None for a layer that chooses none and reuses none."""
        reuses = getattr(getattr(layer, "self_attn", None), "skip_topk", False)
        if self._chosen is None or not (reuses or indexer_of(layer)):
            return None
        chosen_TK = self._chosen[0].long()
        seen_TK = chosen_TK.where(chosen_TK <= torch.arange(tokens, device=chosen_TK.device)[:, None], tokens)
        ordered_TK = seen_TK.sort(-1).values
        return ordered_TK.where(ordered_TK < tokens, -1)


def indexer_of(layer: nn.Module) -> nn.Module | None:
    """The module of a layer that chooses positions."""
    found = getattr(getattr(layer, "self_attn", None), "indexer", None)
    return found if isinstance(found, nn.Module) else None
