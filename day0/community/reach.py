"""How long a sequence must be for a layer to do all that it does."""

from typing import Any

from day0.spec.model import Layer

MARGIN = 33  # tokens beyond a border


def reach(layer: Layer, limit: int) -> int:
    """Tokens beyond the longest window, stretched context, run or sparse choice of a layer that still fits into `limit`; 0 without any."""
    return max((border + MARGIN for border in borders(layer.mixer) if border + 1 < limit), default=0)


def borders(mixer: Any) -> list[int]:
    """Lengths at which a mixer begins to do something else."""
    if mixer is None:
        return []
    inner = getattr(mixer, "attention", None)
    rope, indexer = getattr(mixer, "rope", None), getattr(mixer, "indexer", None)
    found = [getattr(mixer, "window", None) or 0, rope.original_context if rope is not None else 0]
    run = getattr(mixer, "every", 0) or getattr(mixer, "block", 0) or 1
    top_k = getattr(mixer, "top_k", 0) or getattr(indexer, "top_k", 0)
    found += [run if run > 1 else 0, run * top_k]
    return found + (borders(inner) if inner is not None else [])
