"""An operator call as one card makes it: the sizes of a step, and what the card has of the weights. Needs no torch."""

from collections.abc import Mapping
from functools import cached_property
from math import prod

from day0.engine.release import Located
from day0.engine.rules import named_rules
from day0.engine.shard import Cut
from day0.spec.model import TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.placement import Placement
from day0.spec.reports.plan_memory import WorkloadRow


class Rank:
    """One card of a placement under a workload. Of a pipeline it is the card that each layer is on."""

    def __init__(self, load: WorkloadRow, place: Placement) -> None:
        self.load, self.place = load, place

    @cached_property
    def cut(self) -> Cut:
        """How weights lie on it."""
        return Cut(self.place, named_rules(self.load.engine), "", self.load.dtype)

    def sizes(self, call: Site, weights: Mapping[str, Located]) -> dict[str, int]:
        """Axes of a call of a sublayer that is cut already, with the axes of experts and of the vocabulary cut as well.

        T is the tokens of a step, S those held for the longest sequence. Where ranks share the experts, tokens of all replicas come to
        them, to each its even part.
        """
        sizes = {**call.sizes, "T": self.tokens(call.phase), "S": self.load.context}
        for spec in (weights[name].spec for name in call.weights if name in weights):
            if spec.split == "expert":
                sizes["T"] = -(-self.tokens(call.phase) * self.place.dp // self.place.ep)
            if spec.split in ("expert", "vocab"):
                sizes |= self._cut(spec, call)
        return sizes

    def _cut(self, spec: TensorSpec, call: Site) -> dict[str, int]:
        held = self.cut.shape(spec, None, 1)
        letters = [letter if letter in call.sizes else "OI"[at] for at, letter in enumerate(spec.axes[:2])] + list(spec.axes[2:])
        return {letters[at]: held[at] for at in self.cut.ranks(spec) if letters[at] in call.sizes}

    def tokens(self, phase: Phase) -> int:
        """Of a step in this phase, on one replica of the attention."""
        return self.batch if phase == "decode" else min(self.load.chunk, self.batch * self.load.context)

    def sequences(self, phase: Phase) -> int:
        """In a step of this phase."""
        return self.batch if phase == "decode" else -(-self.tokens(phase) // self.load.context)

    @property
    def batch(self) -> int:
        """Sequences on one replica of the attention."""
        return -(-self.load.batch // self.place.dp)

    def share(self, located: Located) -> float:
        """Of a weight that lies on the card."""
        return prod(self.cut.shape(located.spec, None, 1)) / prod(located.spec.shape)
