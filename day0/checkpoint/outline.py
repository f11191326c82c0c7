"""What the names of a release's tensors tell without a family: the stack of layers, and what stands apart from it."""

import re
from collections.abc import Iterable, Mapping

from day0.checkpoint.alike import kinds
from day0.spec.record import record

STACK = re.compile(r"(?:.*?\.)?(?:layers|h|blocks|layer)(?=\.\*\.)")
TOWER = re.compile(r"(?:^|[._])(vision|visual|vit|audio|image|video|mm|multi_modal|multimodal|patch)(?=[._]|$)")
PREDICTION = re.compile(r"(?:^|\.)(?:mtp|nextn|eagle|draft)")
DIGITS = 9  # that a layer's number has fewer than
MARKS = ("enorm", "hnorm", "eh_proj", "shared_head")  # tensors that only prediction layers have


@record
class Outline:
    """Weights by where their names put them."""

    prefix: str  #: of the stack, "model.layers"
    rows: Mapping[int, Mapping[str, list[str]]]  #: layer → name within it, numbers as stars → weights
    ends: tuple[str, ...]  #: weights outside layers, towers and prediction layers
    towers: Mapping[str, list[str]]  #: kind of tower → its weights
    prediction: tuple[str, ...]  #: weights of prediction layers


def outline(weights: Iterable[str], count: int | None) -> Outline:
    """Sort weights by name; of several stacks the one with the most weights is the model's. `count`: layers by the configuration."""
    ends: list[str] = []
    towers: dict[str, list[str]] = {}
    prediction: list[str] = []
    stacks: dict[str, dict[str, list[str]]] = {}
    for kind, names in kinds(weights).items():
        tower, stack = TOWER.search(kind), STACK.match(kind)
        if PREDICTION.search(kind):
            prediction += names
        elif tower:
            towers.setdefault("audio" if tower[1] == "audio" else "vision", []).extend(names)
        elif stack:
            stacks.setdefault(stack[0], {})[kind[stack.end() + 3 :]] = names
        else:
            ends += names
    prefix = max(stacks, key=lambda stack: sum(map(len, stacks[stack].values())), default="")
    ends += [name for other, found in stacks.items() if other != prefix for names in found.values() for name in names]
    rows = _rows(prefix, stacks.get(prefix, {}))
    beyond = [index for index in rows if count is not None and index >= count]
    for index in (index for index in beyond if any(mark in name for name in rows[index] for mark in MARKS)):
        prediction += [name for names in rows.pop(index).values() for name in names]
    return Outline(prefix=prefix, rows=rows, ends=tuple(ends), towers=towers, prediction=tuple(prediction))


def _rows(prefix: str, found: Mapping[str, list[str]]) -> dict[int, dict[str, list[str]]]:
    rows: dict[int, dict[str, list[str]]] = {}
    start = len(prefix) + 1
    for within, names in found.items():
        for name in names:
            number = name[start : name.index(".", start)]
            if len(number) < DIGITS:
                rows.setdefault(int(number), {}).setdefault(within, []).append(name)
    return dict(sorted(rows.items()))
