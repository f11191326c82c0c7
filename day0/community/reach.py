"""How long a sequence must be for a layer to do all that it does."""

from collections.abc import Iterable, Iterator
from typing import Any

from day0.spec.evidence import Rung, Uncompared
from day0.spec.model import Layer

MARGIN = 33  # tokens beyond a border


def reach(layer: Layer, limit: int) -> int:
    """Tokens beyond the longest window, stretched context, run or sparse choice of a layer that still fits into `limit`; 0 without any."""
    return _beyond(borders(layer.mixer), limit)


def seen(layer: Layer, limit: int) -> int:
    """The same of what bounds attention alone: a stretched context shows in the table of cosines and sines as well, a choice nowhere else."""
    return _beyond(narrowing(layer.mixer), limit)


def _beyond(lengths: list[int], limit: int) -> int:
    return max((length + MARGIN for length in lengths if length + 1 < limit), default=0)


def borders(mixer: Any) -> list[int]:
    """Lengths at which a mixer begins to do something else."""
    if mixer is None:
        return []
    rope = getattr(mixer, "rope", None)
    return [length for length in (rope.original_context if rope is not None else 0, *narrowing(mixer)) if length]


def narrowing(mixer: Any) -> list[int]:
    """Lengths beyond which attention no longer reads all there is: windows, runs, sparse choices."""
    if mixer is None:
        return []
    inner, indexer = getattr(mixer, "attention", None), getattr(mixer, "indexer", None)
    run = getattr(mixer, "every", 0) or getattr(mixer, "block", 0) or 1
    top_k = getattr(mixer, "top_k", 0) or getattr(indexer, "top_k", 0)
    found = [getattr(mixer, "window", None) or 0, run if run > 1 else 0, run * top_k]
    return [length for length in found if length] + (narrowing(inner) if inner is not None else [])


def too_short(layers: Iterable[Layer], tokens: int, context: int, rung: Rung) -> Iterator[Uncompared]:
    """What a sequence of that many tokens does not show of the layers: attention beyond each length that bounds it, once."""
    told = set[tuple[str, int]]()
    for layer in layers:
        kind = layer.mixer.kind if layer.mixer is not None else ""
        for length in narrowing(layer.mixer):
            if length >= tokens and (kind, length) not in told:
                told.add((kind, length))
                reaches = length < context
                why = f"--tokens {min(length + MARGIN, context)} does" if reaches else f"the context of the model ends at {context}"
                what = f"what {kind} does beyond {length} tokens"
                yield Uncompared(layer=layer.index, part="mixer", rung=rung, what=what, why=f"{tokens} tokens do not reach it; {why}")
