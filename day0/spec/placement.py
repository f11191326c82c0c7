"""How a model is cut over cards, and what one of them holds of an axis."""

from collections.abc import Sequence

from day0.spec.record import record


@record
class Heads:
    """Neighbouring heads along one axis: a rank holds whole ones."""

    count: int  #: heads
    width: int  #: elements of each along the axis
    shared: bool = False  #: where ranks are more than heads, several hold the same one; else there must not be more ranks

    def divides(self, ranks: int) -> bool:
        """Whether every rank gets as many as the others."""
        return self.count % ranks == 0 or (self.shared and ranks % self.count == 0)


@record
class Placement:
    """Degrees of parallelism. A stage of the pipeline has tp · dp cards; the experts of a layer lie on all of them."""

    tp: int = 1  #: ranks that cut heads and feed-forward widths
    ep: int = 1  #: ranks that share the routed experts among them; the cards of a stage divided by it cut each expert
    pp: int = 1  #: stages of the pipeline, each with whole layers
    dp: int = 1  #: copies of everything but routed experts, each with its own sequences
    cp: int = 1  #: ranks among those of tp that share the tokens of replicated state
    redundant: int = 0  #: experts that are held a second time, so that ranks have as many as each other

    @property
    def stage(self) -> int:
        """Cards of one stage."""
        return self.tp * self.dp

    @property
    def cards(self) -> int:
        """Cards of the whole."""
        return self.stage * self.pp

    @property
    def expert_tp(self) -> int:
        """Ranks that cut each expert."""
        return self.stage // self.ep

    def __str__(self) -> str:
        given = {"tp": self.tp, "ep": self.ep, "pp": self.pp, "dp": self.dp, "cp": self.cp}
        extra = f" · {self.redundant} redundant experts" if self.redundant else ""
        return " · ".join(f"{name} {degree}" for name, degree in given.items() if degree > 1 or name == "tp") + extra


ONE_CARD = Placement()


def portion(count: int, ranks: int) -> int:
    """Of `count` alike, those of the rank that has most."""
    return -(-count // ranks)


def held(heads: Sequence[Heads], size: int, ranks: int) -> int:
    """Elements of an axis of `size` that one of `ranks` holds: whole heads where there are any, at least one of each kind."""
    if not heads:
        return -(-size // ranks)
    return sum(-(-each.count // ranks) * each.width for each in heads)
