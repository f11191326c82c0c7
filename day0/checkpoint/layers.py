"""Lists with one word for each layer."""

from collections.abc import Collection, Sequence

from day0.checkpoint.config import Config
from day0.spec.errors import Day0Error


def layer_kinds(config: Config, known: Collection[str], default: Sequence[str], key: str = "layer_types") -> list[str]:
    """One of `known` for each of `num_hidden_layers` layers; `default` where the key is absent.

    A longer list is cut: its last entries are of prediction layers.
    """
    count = config.int("num_hidden_layers")
    kinds = config.list(key, list(default))
    if len(kinds) < count:
        raise Day0Error(f"{key} names {len(kinds)} layers, num_hidden_layers says {count}", config.path)
    for kind in kinds[:count]:
        if kind not in known:
            raise Day0Error(f"{key} {str(kind)[:60]!r} is not supported by this family", config.path, hint=f"known: {', '.join(known)}")
    return kinds[:count]


def positive(config: Config, key: str, default: int) -> int:
    """A whole number above zero, by which something is divided."""
    value = int(config.int(key, default))
    if value < 1:
        raise Day0Error(f"{key} is {value}, must be at least 1", config.path)
    return value
