"""What one rank computes of a model under a placement, layers that hold the same in their steps told as one kind. Needs no torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from day0.engine.shadow.tensor import UNEVEN
from day0.spec.model import Layer, Model, PartSpec
from day0.spec.ops import PHASES, Site
from day0.spec.placement import Placement, portion
from day0.spec.registry import kernels, parts

Formats = Mapping[str, str]  # weight of a layer (or of the ends) → its format


@dataclass(frozen=True)
class Share:
    """A rank's part of a model. Two are equal where their steps hold the same."""

    key: object
    model: Model = field(compare=False)  # with the rank's sublayers
    forms: Sequence[Formats] = field(compare=False)  # layer → formats of its weights
    ends: Formats = field(compare=False)  # of the weights outside the layers
    kinds: Sequence[int] = field(compare=False)  # layer → number of those that are alike
    place: Placement = field(compare=False)

    @classmethod
    def of(cls, model: Model, forms: Sequence[Formats], ends: Formats, place: Placement) -> "Share":
        """That of the rank that has most."""
        layers = tuple(shared(layer, place) for layer in model.layers)
        alike: dict[object, int] = {}
        kinds = tuple(
            alike.setdefault((shape(replace(layer, index=0)), tuple(sorted(form.items()))), len(alike))
            for layer, form in zip(layers, forms, strict=True)
        )
        around = shape(replace(model, layers=(), towers=(), read_keys={}, unread_keys=(), unused=(), prediction=None, family="", context=0))
        sent = frozenset(visits(layer.ffn, place) for layer in layers if layer.ffn)
        key = (around, tuple(sorted(ends.items())), kinds, tuple(alike), place.tp, sent)
        return cls(key=key, model=replace(model, layers=layers), forms=forms, ends=ends, kinds=kinds, place=place)


def shared(layer: Layer, place: Placement) -> Layer:
    """With the sublayers that a rank computes."""
    local: dict[str, Any] = {name: computed(part, place) for name, part in layer.parts()}
    return replace(layer, **local)


def computed(part: PartSpec, place: Placement) -> PartSpec:
    """A rank's heads and widths; of an expert, what the cards that cut it have."""
    found: PartSpec = parts().get(part.kind).of_rank(part, place.tp)
    if getattr(part, "experts", 0):
        found = replace(found, width=portion(part.width, place.expert_tp))  # type: ignore[attr-defined, call-arg]
    return found


def shape(value: Any, name: str = "") -> object:
    """What of a record decides memory: all but factors, of which only being one or none does, and numbers of other layers."""
    if is_dataclass(value):
        return (type(value).__qualname__, *(shape(getattr(value, each.name), each.name) for each in fields(value)))
    if name.endswith("_source"):
        return value is not None
    if isinstance(value, float):
        return value == 1
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(map(shape, value)) if isinstance(value, tuple | list) else value


def visits(part: PartSpec, place: Placement) -> float:
    """Tokens that the experts of a rank see for each of its own, where copies of attention send them theirs: up to `UNEVEN` times its share of
    all choices, at the most all tokens."""
    experts, top_k = getattr(part, "experts", 0), getattr(part, "top_k", 0)
    return max(1.0, min(place.dp, UNEVEN * place.dp * top_k / place.ep)) if experts else 1.0


def turns(model: Model, dtype: str) -> set[int]:
    """Tokens of a sequence at which steps begin to hold something else, or no more of it: windows, as many as an indexer chooses, and up to
    where torch's kernels do something that they no longer do beyond."""
    found: set[int] = set()
    for part in {layer.mixer for layer in model.layers if layer.mixer}:
        known = parts().get(part.kind)
        found |= {spec.window for spec in known.state(part, model.dtype) if spec.window}
        for site in (site for phase in PHASES for site in known.sites(part, model.hidden, phase)):
            chosen = site.sizes.get("K", 0) * (site.options.get("block") or site.options.get("every") or 1)
            found |= {chosen, chosen + 1} if chosen else set()
            for first in turning(replace(site, dtype=dtype)):
                found |= {first - 1, first}
    return {size for size in found if size > 0}


def turning(site: Site) -> Iterator[int]:
    """Where torch's kernels that take a call turn."""
    for _, impl in kernels().items():
        if impl.op == site.op and impl.provider == "torch" and impl.turns and impl.refuses(site, None) is None:
            yield from impl.turns(site)
