"""How a checkpoint stores routed experts, in the stack and apart from it in prediction layers: the two often differ. Needs no torch."""

import re
from collections.abc import Collection, Mapping

from day0.checkpoint.banks import alike
from day0.spec.format import Stored
from day0.spec.reports.inspect import ExpertLayoutRow

EXPERTS = re.compile(r"(.*\bexperts)\.(\d+\.)?")


def expert_layouts(stored: Mapping[str, Stored], prediction: Collection[str]) -> list[ExpertLayoutRow]:
    """One row for each layout in the stack, then in prediction layers, whose weights are named in `prediction`."""
    places: dict[tuple[bool, bool], dict[str, str]] = {}  # (in prediction layers?, together?) → place of the experts → one of their weights
    for name, weight, _ in alike(stored):
        match = EXPERTS.match(name)
        if match and "shared_experts" not in match[1] and (match[2] or len(weight.shape) == 3):
            places.setdefault((name in prediction, match[2] is None), {}).setdefault(match[1], name)
    return [
        ExpertLayoutRow(
            where="prediction" if apart else "stack", layout="together" if together else "one by one", layers=len(found), tensor=min(found.values())
        )
        for (apart, together), found in sorted(places.items())
    ]
