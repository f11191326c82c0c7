"""What each card holds of the weights: layers by stages of the pipeline, the ends, and what an engine keeps besides. Needs no torch."""

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

from day0.engine import footprint
from day0.engine.inventory import Inventory
from day0.engine.release import Located
from day0.engine.shard import Cut
from day0.spec import dtype as number
from day0.spec.placement import Placement
from day0.spec.reports.plan_memory import WorkloadRow
from day0.spec.rules import Rules


class Holdings:
    """The weights of a plan, stage by stage."""

    def __init__(self, inventory: Inventory, load: WorkloadRow, placement: Placement, rules: Rules, cut: Cut) -> None:
        self.inventory, self.load, self.placement, self.rules, self.cut = inventory, load, placement, rules, cut
        self.model = inventory.release.model

    @cached_property
    def stages(self) -> list[range]:
        """Layers of each stage of the pipeline; the first stages have one more where they do not come out even."""
        count, pp = len(self.model.layers), self.placement.pp
        starts = [stage * (count // pp) + min(stage, count % pp) for stage in range(pp + 1)]
        return [range(start, end) for start, end in pairwise(starts)]

    @cached_property
    def kinds(self) -> list[int]:
        """Bytes that one card holds of a layer of each kind."""
        return [self.cut.buffer(weights).bytes for weights in self.inventory.kinds]

    def layers(self, stage: int) -> list[int]:
        """Bytes on one card of each layer of a stage."""
        return [self.kinds[self.inventory.kind_of[index]] for index in self.stages[stage]]

    def ends(self, stage: int) -> Mapping[str, Located]:
        """Weights outside the layers that a stage holds: the table first, what follows the layers last."""
        first, last = stage == 0, stage == self.placement.pp - 1
        tied = self.model.tied
        return {name: each for name, each in self.inventory.ends.items() if (first or (last and tied) if each.spec.role == "embed" else last)}

    def weights(self, stage: int = 0) -> dict[str, int]:
        """Allocation → bytes on one card of a stage."""
        ends, layers = self.ends(stage), self.layers(stage)
        if self.load.weights == "resident":
            found = {"layers": sum(layers), "ends": self.cut.buffer(ends).bytes}
        else:
            small = {name: located for name, located in ends.items() if located.spec.role not in ("embed", "head")}
            rows = min(footprint.HEAD_ROWS, -(-self.model.vocab // self.placement.tp))
            head = footprint.aligned(number.size(self.load.dtype, rows * self.model.hidden))
            slots = min(footprint.READ_AHEAD, len(layers)) * max(layers)
            found = {"layer slots": slots, "norm": self.cut.buffer(small).bytes, "head rows": head}
        return found | {name: size for name, size in self._extra(stage).items() if size}

    def _extra(self, stage: int) -> dict[str, int]:
        load, found = self.load, {}
        if self.rules.absorbed:
            found["absorbed"] = sum(self._absorbed(self.inventory.kind_of[index]) for index in self.stages[stage])
        if load.prediction and stage == self.placement.pp - 1:
            found["prediction"] = self.cut.buffer(self.inventory.prediction).bytes
        if load.vision and stage == 0:
            found["towers"] = self.inventory.tower_bytes(run=load.sees)
        return found

    def _absorbed(self, kind: int) -> int:
        weights = self.inventory.kinds[kind]
        shapes = (self.cut.shape(weights[name].spec, None, 1) for name in self.inventory.absorbed[kind] if name in weights)
        return sum(number.size(self.load.dtype, rows * columns) for rows, columns in shapes)
