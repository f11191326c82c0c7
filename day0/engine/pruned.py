"""Releases of which experts were taken out: every layer has as many as its tensors hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from day0.engine.pieces import Pieces, Source
from day0.parts.moe_ffn import MoeFfn
from day0.spec.model import Layer, Model

EXPERTS = ("gate", "up", "down")


def with_own_experts(model: Model, found: Mapping[str, Sequence[Source]]) -> tuple[Model, dict[int, int]]:
    """(model, layer → experts by the configuration where another number is right); `found`: canonical name → what it comes from.

    A layer's own number counts where the rows of the router and the numbers of the experts agree on it: gaps are no pruning.
    """
    layers, stated = list(model.layers), {}
    for place, layer in enumerate(layers):
        count = _own(layer, found)
        if isinstance(layer.ffn, MoeFfn) and count is not None and layer.ffn.top_k <= count != layer.ffn.experts:
            layers[place] = replace(layer, ffn=replace(layer.ffn, experts=count))
            stated[layer.index] = layer.ffn.experts
    return (replace(model, layers=tuple(layers)) if stated else model), stated


def _own(layer: Layer, found: Mapping[str, Sequence[Source]]) -> int | None:
    router = found.get(f"layers.{layer.index}.ffn.router")
    if not router or not isinstance(layer.ffn, MoeFfn) or layer.ffn.identities:
        return None
    rows = router[0].weights.first.shape[0]
    if rows == layer.ffn.experts:
        return None
    named = (found.get(f"layers.{layer.index}.ffn.experts.{name}") for name in EXPERTS)
    held = [Pieces(sources).experts() for sources in named if sources]
    return rows if held and all(experts == list(range(rows)) for experts in held) else None
