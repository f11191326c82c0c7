"""What a sublayer keeps between steps."""

from math import prod
from typing import Literal

from day0.spec import dtype as number
from day0.spec.placement import Heads, held
from day0.spec.record import record

Group = tuple[str, int, int | None]  # kind, tokens for each entry, window
Growth = Literal["paged", "window", "compressed", "recurrent", "conv"]
Use = Literal["attention", "latent", "index", "other"]
PAGED: Group = ("paged", 1, None)  # growth group of state that keeps one entry for every token


def wide(dtype: str) -> str:
    """Type of sums that go on for a whole sequence, where the model computes in `dtype`."""
    return "float64" if dtype == "float64" else "float32"


@record
class StateSpec:
    """One piece of state of one layer."""

    name: str  #: "k", "v", "latent", "conv_q"
    kind: Growth  #: "paged", "window" and "compressed" grow with tokens; "recurrent" and "conv" do not
    shape: tuple[int, ...]  #: elements of one entry (one token, one compressed entry, or one sequence)
    dtype: str  #: compute type of the elements
    every: int = 1  #: tokens for each entry; above 1 for "compressed"
    window: int | None = None  #: tokens kept; None keeps all
    heads: tuple[Heads, ...] = ()  #: what tensor parallelism cuts it by, along the last axes; () is replicated
    use: Use = "other"  #: what reads it: attention (heads of keys and values), attention in latent space, the choice of tokens; others stay
    exact: int = 0  #: last elements of an entry that stay as they are where the others are stored in 8 bits (rotated dimensions)

    @property
    def grows(self) -> bool:
        """Whether it takes pages (True), or a ring or slot for each sequence (False)."""
        return self.kind in ("paged", "compressed")

    @property
    def group(self) -> Group:
        """State of one growth law shares tables of where its entries lie."""
        return (self.kind, self.every, self.window)

    def ring(self, chunk: int, context: int) -> int:
        """Entries that a window of one sequence takes: those a step of `chunk` new tokens looks back at, and the new ones."""
        assert self.window is not None
        return min(self.window - 1 + chunk, context)

    @property
    def entry_bytes(self) -> int:
        """Bytes of one entry."""
        return number.size(self.dtype, prod(self.shape))

    def elements(self, ranks: int) -> int:
        """Elements of one entry that one of `ranks` holds."""
        whole = sum(each.count * each.width for each in self.heads)
        return prod(self.shape) * held(self.heads, whole, ranks) // whole if whole else prod(self.shape)
