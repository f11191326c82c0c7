"""What can be told of a release that no family reads: layers and sizes, from the names and shapes of its tensors."""

import re
from collections.abc import Mapping
from math import prod

from day0.checkpoint.folder import Checkpoint
from day0.spec.reports.inspect import LayerRow, ParameterRow

STACK = re.compile(r"(?:.*?\.)?(?:layers|h|blocks|layer)(?=\.\*\.)")
DEFINITION = (
    "elements of all tensors as stored, because no family reads this release: scales are counted where no format reads them, and packed "
    "numbers count as what they are packed in"
)


def parameters(checkpoint: Checkpoint) -> ParameterRow:
    """Elements of all weights, and of all tensors that no format reads."""
    return ParameterRow(total=sum(_elements(checkpoint).values()), active=None, prediction=0, towers={}, definition=DEFINITION)


def layers(checkpoint: Checkpoint) -> list[LayerRow]:
    """Rows of the stack that has the most bytes."""
    stacks: dict[str, dict[int, list[str]]] = {}
    for kind, names in checkpoint.kinds.items():
        match = STACK.match(kind)
        if match:
            rows, place = stacks.setdefault(match[0], {}), match[0].count(".") + 1
            for name in names:
                rows.setdefault(int(name.split(".", place + 1)[place]), []).append(name)
    sizes = {stack: sum(_bytes(names, checkpoint) for names in rows.values()) for stack, rows in stacks.items()}
    if not sizes:
        return []
    elements, largest = _elements(checkpoint), stacks[max(sizes, key=lambda stack: sizes[stack])]
    return [_row(index, largest[index], checkpoint, elements) for index in sorted(largest)]


def _bytes(names: list[str], checkpoint: Checkpoint) -> int:
    return sum(checkpoint.headers[name].bytes for name in names)


def _elements(checkpoint: Checkpoint) -> dict[str, int]:
    """Tensor → elements; companions that a format has taken count nothing."""
    companions = {part.name for stored in checkpoint.stored.values() for kind, part in stored.parts.items() if kind != "data"}
    return {name: prod(header.shape) for name, header in checkpoint.headers.items() if name not in companions}


def _row(index: int, names: list[str], checkpoint: Checkpoint, elements: Mapping[str, int]) -> LayerRow:
    return LayerRow(
        index=index,
        mixer=None,
        ffn=None,
        residual=None,
        parameters=sum(elements.get(name, 0) for name in names),
        active=None,
        bytes=_bytes(names, checkpoint),
        formats=sorted({checkpoint.stored[name].format for name in names if name in checkpoint.stored}),
        experts=None,
        top_k=None,
    )
