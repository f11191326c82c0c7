"""What the sublayers of a decoder layer of transformers return."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def noted(layer: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Write down what mixers and feed-forward networks of a layer return: "mixer", "ffn"; "mixer.1" for the second of several.

    A network beside several is what waits: it is stacked with the first of them, [T, 2, D].
    """
    seen: dict[str, Tensor] = {}

    def note(key: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            seen[key] = value.reshape(-1, value.shape[-1]).detach()

        return hook

    handles = [module.register_forward_hook(note(key)) for key, module in modules(layer).items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
        if "waiting" in seen:
            seen["ffn"] = torch.stack((seen["ffn"], seen.pop("waiting")), dim=1)


def modules(layer: nn.Module) -> dict[str, nn.Module]:
    """Key → module."""
    found: dict[str, nn.Module] = {}
    children = [(place, child) for name, child in layer.named_children() if (place := place_of(name))]
    for place, child in children:
        if isinstance(child, nn.ModuleList):
            found |= {f"{place}.{i}" if i else place: member for i, member in enumerate(child)}
    several = {place for place, child in children if isinstance(child, nn.ModuleList)}
    for place, child in children:
        if not isinstance(child, nn.ModuleList):
            found["waiting" if place in several else place] = child
    return found


def keys(part: str, half: int, parts: int) -> Iterator[str]:
    """Keys that a part of ours may have; a layer that is one sublayer may call it by another name."""
    yield f"{part}.{half}" if half else part
    if parts == 1 and not half:
        yield from ("mixer", "ffn")


def place_of(name: str) -> str:
    """The part that a child of a decoder layer is, by the names that transformers gives them; "" for norms and the like."""
    if "norm" in name or name.endswith("_hc") or "hyper" in name:
        return ""
    if "attn" in name or "attention" in name or "mixer" in name:
        return "mixer"
    return "ffn" if any(word in name for word in ("mlp", "moe", "ffn", "feed_forward")) else ""
