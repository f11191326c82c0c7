"""What the routers of transformers chose, a choice forced on them, and their rule applied to scores that are not theirs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The experts of each token, in one layer."""

    logits_TE: Tensor  #: what the router's matrix gave, before any score function
    weights_TK: Tensor  #: factor of each chosen expert
    experts_TK: Tensor  #: chosen experts, int64, in no particular order
    ranked_TE: Tensor  #: the values that the last top-k compared, biases and group masks included


def router_of(model: Any, layer: nn.Module) -> Any:
    """The module of `layer` that scores and chooses experts; None in a dense layer."""
    recorder = (getattr(model, "_can_record_outputs", None) or {}).get("router_logits")
    kind = getattr(recorder, "target_class", recorder)
    found = [module for module in layer.modules() if kind is not None and isinstance(module, kind)]
    return found[0] if len(found) == 1 and getattr(found[0], "top_k", None) else None


class _Choice(TorchFunctionMode):
    """Watches a router's own code: may answer its matrix product with given logits, and its last top-k with a given choice."""

    def __init__(self, top_k: int, logits_TE: Tensor | None, experts_TK: Tensor | None) -> None:
        super().__init__()
        self._top_k, self._logits, self._experts = top_k, logits_TE, experts_TK
        self.ranked_TE: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "linear" and self._logits is not None:
            return self._logits
        result = func(*args, **(kwargs or {}))
        if name == "topk" and args[0].dim() == 2 and result[1].shape[-1] == self._top_k:
            self.ranked_TE = args[0]
            if self._experts is not None:
                return type(result)((args[0].gather(-1, self._experts), self._experts))
        return result


@contextmanager
def watched(router: Any, experts_TK: Tensor | None = None) -> Iterator[list[Selection]]:
    """Collect what `router` chooses while it runs; with `experts_TK`, that choice is forced and only its weights are the router's."""
    seen: list[Selection] = []
    if router is None:
        yield seen
        return
    original = router.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        choice = _Choice(router.top_k, None, experts_TK)
        with choice:
            result = original(*args, **kwargs)
        seen.append(_selection(result, choice))
        return result

    router.forward = forward
    try:
        yield seen
    finally:
        del router.forward


def rule(router: Any, logits_TE: Tensor, experts_TK: Tensor | None = None) -> Selection:
    """What `router` would choose if its matrix had given `logits_TE`: its own code, its own bias and groups."""
    width = next(p for name, p in router.named_parameters(recurse=False) if name == "weight").shape[-1]
    choice = _Choice(router.top_k, logits_TE, experts_TK)
    with choice:
        result = router(torch.zeros(logits_TE.shape[0], width, dtype=logits_TE.dtype, device=logits_TE.device))
    return _selection(result, choice)


def _selection(result: tuple[Tensor, ...], choice: _Choice) -> Selection:
    logits, *others = result
    experts = next(tensor for tensor in others if not tensor.is_floating_point())
    weights = next(tensor for tensor in others if tensor.is_floating_point())
    ranked = choice.ranked_TE
    assert ranked is not None, "the router chose without a top-k"
    return Selection(logits_TE=logits, weights_TK=weights, experts_TK=experts, ranked_TE=ranked)
