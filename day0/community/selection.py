"""What the routers of transformers chose, a choice forced on them, and their rule applied to scores that are not theirs."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
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
    scale: float  #: factor that the module around the router puts on the weights


@dataclass(frozen=True, kw_only=True)
class Router:
    """A module that scores and chooses experts, and what it was called with beside the hidden states."""

    module: Any  #: with its own bias and groups
    others: tuple[Any, ...] = ()  #: further arguments, such as a correction bias that the module around it holds
    scale: float = 1.0  #: factor that the module around it puts on the weights
    batched: bool = False  #: whether it takes hidden states as [1, T, D]; else as [T, D]

    def copy(self) -> "Router":
        """One that stays when the layer is given back."""
        return deepcopy(self)


def router_of(model: nn.Module, layer: nn.Module) -> Any:
    """The module of `layer` that scores and chooses experts; None in a dense layer and where a table chooses."""
    kinds = tuple(kind for module in model.modules() if (kind := _recorded(module)) is not None)
    found = [module for module in layer.modules() if kinds and isinstance(module, kinds)]
    return found[0] if len(found) == 1 and getattr(found[0], "top_k", None) else None


def _recorded(module: Any) -> Any:
    recorder = (getattr(module, "_can_record_outputs", None) or {}).get("router_logits")
    return getattr(recorder, "target_class", recorder)


class _Choice(TorchFunctionMode):
    """Watches a router's own code: may answer its matrix product with given logits, and its last top-k with a given choice."""

    def __init__(self, top_k: int, logits_TE: Tensor | None, experts_TK: Tensor | None) -> None:
        super().__init__()
        self._top_k, self._logits, self._experts = top_k, logits_TE, experts_TK
        self.ranked_TE: Tensor | None = None
        self.chosen_TK: Tensor | None = None
        self.logits_TE: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "linear" and self._logits is not None:
            self.logits_TE = self._logits
            return self._logits
        result = func(*args, **(kwargs or {}))
        if name == "linear":
            self.logits_TE = result
        if name == "topk" and args[0].dim() == 2 and result[1].shape[-1] == self._top_k and self._over_experts(args[0]):
            self.ranked_TE = args[0]
            if self._experts is not None:
                result = type(result)((args[0].gather(-1, self._experts), self._experts))
            self.chosen_TK = result[1]
        return result

    def _over_experts(self, ranked: Tensor) -> bool:
        """A top-k among groups may keep as many."""
        return self.logits_TE is None or ranked.shape[-1] == self.logits_TE.shape[-1]


@contextmanager
def watched(layer: nn.Module, router: Any, experts_TK: Tensor | None = None) -> Iterator[list[tuple[Selection, Router]]]:
    """Collect what `router` chooses while `layer` runs; with `experts_TK`, that choice is forced and only its weights are the router's."""
    seen: list[tuple[Selection, Router]] = []
    if router is None:
        yield seen
        return
    original = router.forward
    scale = _scale(layer, router)

    def forward(hidden: Tensor, *others: Any, **kwargs: Any) -> Any:
        choice = _Choice(router.top_k, None, experts_TK)
        with choice:
            result = original(hidden, *others, **kwargs)
        seen.append((_selection(result, choice, scale), Router(module=router, others=others, scale=scale, batched=hidden.dim() == 3)))
        return result

    router.forward = forward
    try:
        yield seen
    finally:
        del router.forward


def _scale(layer: nn.Module, router: nn.Module) -> float:
    """Factor on the weights that the module around the router applies, where the router does not."""
    own = any(hasattr(router, name) for name in SCALES)
    around = next(module for module in layer.modules() if router in module.children())
    return 1.0 if own else next((float(getattr(around, name)) for name in SCALES if hasattr(around, name)), 1.0)


SCALES = ("routed_scaling_factor", "router_scaling_factor")  # what classes call it


@torch.no_grad()
def rule(router: Router, logits_TE: Tensor, experts_TK: Tensor | None = None) -> Selection:
    """What `router` would choose if its matrix had given `logits_TE`: its own code, its own bias and groups."""
    module = router.module
    matrix = next(p for p in module.parameters() if p.dim() == 2 and p.shape[0] == logits_TE.shape[1])
    choice = _Choice(module.top_k, logits_TE, experts_TK)
    hidden_TD = torch.zeros(logits_TE.shape[0], matrix.shape[-1], dtype=logits_TE.dtype, device=logits_TE.device)
    with choice:
        result = module(hidden_TD[None] if router.batched else hidden_TD, *router.others)
    return _selection(result, choice, router.scale)


def same(experts_TK: Tensor, right: Selection) -> Tensor:
    """Whether each token's experts are those of `right`, or others of exactly the same rank."""
    ranked_TE = right.ranked_TE.float()
    mine_TK = ranked_TE.gather(-1, experts_TK).sort(-1).values
    best_TK = ranked_TE.gather(-1, right.experts_TK).sort(-1).values
    distinct_T = (experts_TK.sort(-1).values.diff(dim=-1) != 0).all(-1)
    return (mine_TK == best_TK).all(-1) & distinct_T


def _selection(result: tuple[Tensor, ...], choice: _Choice, scale: float) -> Selection:
    """Routers return logits, weights and experts, or scores of all experts; the choice is then what the top-k gave."""
    logits, *others = result
    ranked = choice.ranked_TE
    assert ranked is not None and choice.chosen_TK is not None, "the router chose without a top-k"
    experts = next((tensor for tensor in others if not tensor.is_floating_point()), None)
    if experts is None:
        experts, weights = choice.chosen_TK, logits.gather(-1, choice.chosen_TK)
        assert choice.logits_TE is not None
        logits = choice.logits_TE
    else:
        weights = next(tensor for tensor in others if tensor.is_floating_point())
    return Selection(logits_TE=logits, weights_TK=weights * scale, experts_TK=experts, ranked_TE=ranked, scale=scale)
