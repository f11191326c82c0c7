"""Which keys of a configuration each figure of a model follows from: found by changing one key after another and reading again."""

import copy
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from day0.checkpoint.config import Config
from day0.engine.structure import PLACES, figures, kinds
from day0.spec.family import Family
from day0.spec.model import Model
from day0.spec.reports.inspect import Scalar

MOST = 40_000  # layers that are read in all, over all keys that are tried
Path = tuple[str, ...]
Figures = Mapping[str, Mapping[str, Scalar]]  # kind of layer, or "" for the whole model → figure → value


def sources(family: Family, config: Config, model: Model) -> dict[str, dict[str, list[str]]]:
    """Kind of layer → figure → dotted keys; figures of the whole model (hidden, vocab, context, layers) are under ""."""
    first: dict[str, int] = {}
    for place, name in enumerate(kinds(model)):
        first.setdefault(name, place)
    before = _figures(model, first)
    found: dict[str, dict[str, list[str]]] = {name: {} for name in before}
    for path, value in islice(_tried(config.data, model.read_keys), max(1, MOST // len(model.layers))):
        changed = _read(family, _with(config.data, path, value))
        for name, values in _figures(changed, first).items() if changed else ():
            for figure in _moved(before[name], values):
                found[name].setdefault(figure, []).append(".".join(path))
    return found


def _moved(before: Mapping[str, Scalar], after: Mapping[str, Scalar]) -> Iterator[str]:
    """Figures that differ; of a part that has become another kind of part, its kind alone."""
    for figure, value in after.items():
        same = before.get(figure, value) == value
        kind = f"{figure.partition('.')[0]}.kind"
        if not same and (figure == kind or before.get(kind) == after.get(kind)):
            yield figure


def _figures(model: Model, places: Mapping[str, int]) -> Figures:
    """Figures of the whole, and of the layers that stand for their kinds; none of a layer in a stack of another height."""
    whole: dict[str, Scalar] = {name: getattr(model, name) for name in ("hidden", "vocab", "context", "tied", "dtype")}
    found: dict[str, dict[str, Scalar]] = {"": whole | {"layers": len(model.layers)}}
    for name, place in places.items():
        parts = [(part, getattr(model.layers[place], part)) for part in PLACES] if place < len(model.layers) else []
        found[name] = {f"{part}.{key}": value for part, spec in parts for key, value in figures(spec).items()}
    return found


def _tried(data: Mapping[str, Any], read: Mapping[str, str]) -> Iterator[tuple[Path, Any]]:
    """(path, another value) of what somebody read: a number is doubled, which keeps what divides it, a list turned by one place."""
    for path, value in _leaves(data, ()):
        if ".".join(path) in read or path[0] in read:
            yield path, value[1:] + value[:1] if isinstance(value, list) else not value if isinstance(value, bool) else value * 2


def _leaves(data: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and len(path) < 3 and key != "quantization_config":
            yield from _leaves(value, (*path, key))
        elif isinstance(value, bool | list) or (isinstance(value, int | float) and value):
            yield (*path, key), value


def _with(data: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy in which one value is another."""
    key, *rest = path
    return {**data, key: _with(data[key], tuple(rest), value) if rest else value}


def _read(family: Family, data: dict[str, Any]) -> Model | None:
    """The model of a changed configuration; None where the family refuses it."""
    try:
        return family.read(Config(copy.copy(data)))
    except Exception:  # a changed configuration may be refused, or fail, in any way: then nothing is learnt from the key
        return None
