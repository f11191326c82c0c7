"""What the name of a tensor within a layer means, by the names of all families that are known."""

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from day0.spec.registry import families

Place = Literal["mixer", "ffn", "residual"]
PLACES: tuple[Place, ...] = ("mixer", "ffn", "residual")
NETWORK = ("expert", "mlp", "ffn", "feed_forward", "moe", "router", "shared")
MIXER = ("attn", "attention", "mixer", "mamba", "ssm", "conv", "delta", "linear", "recur", "indexer", "mix")


class Sense(NamedTuple):
    """Of one name."""

    place: Place | None  #: the sublayer it belongs to; None where nothing in the name says it
    canonical: frozenset[str]  #: what families call it, in that sublayer
    expert: bool  #: whether it is of a routed expert

    @property
    def known(self) -> bool:
        """Whether some family has such a name."""
        return bool(self.canonical)


def sense(within: str) -> Sense:
    """Of a name within a layer, numbers as stars: `mlp.experts.*.up_proj.weight`. The whole name counts, else its last word."""
    name = within.removesuffix(".weight")
    whole, last = _vocabulary()
    found = whole.get(name) or last.get(name.rpartition(".")[2]) or frozenset()
    place = _place(name) or next((place for place in PLACES if found and all(one.startswith(place) for one in found)), None)
    canonical = frozenset(one for one in found if place and one.startswith(f"{place}."))
    expert = "expert" in name and "shared" not in name and not any(word in name for word in ("norm", "gate.", "router", "bias", "proj_norm"))
    return Sense(place, canonical, expert)


@cache
def _vocabulary() -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
    """(whole name, last word of it) → canonical names that families give it."""
    whole: dict[str, set[str]] = {}
    last: dict[str, set[str]] = {}
    for _, family in families().items():
        for name, target in family.names.tensors.items():
            targets = {one if isinstance(one, str) else one.target for one in ((target,) if isinstance(target, str) else target)}
            plain = {target.split(".", 1)[1] if target[0].isdigit() else target for target in targets}
            spelled = name.replace("{e}", "*").replace("{i}", "*").removesuffix(".weight")
            whole.setdefault(spelled, set()).update(plain)
            last.setdefault(spelled.rpartition(".")[2], set()).update(plain)
    return {name: frozenset(one) for name, one in whole.items()}, {name: frozenset(one) for name, one in last.items()}


def _place(name: str) -> Place | None:
    """By the words of a name; norms that stand in no sublayer are the residual's."""
    words = name.lower()
    first = words.partition(".")[0]
    if "norm" in first or first.startswith(("ln", "hc_", "input_layer", "post_")):
        return "residual"
    if any(word in words for word in NETWORK):
        return "ffn"
    return "mixer" if any(word in words for word in MIXER) else None
