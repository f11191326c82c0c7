"""What a workload may hold at once, from what a few sizes of it hold: never less where one of its sizes grows. Needs no torch."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import product

# The first rungs: tokens of a sequence, sequences, tokens of prompts in a step. Wide models have few: their small steps are nobody's largest.
FIRST = ((64, 192, 512), (1, 3, 8), (16, 64, 128, 192, 256, 512))
WIDE = ((4096, 16384, 65536), (1, 8), (128, 512))
BEYOND = (8, 8, 4)  # times by which later rungs grow
ENDLESS = 1 << 60

Measure = Callable[[int, int, int], int]  # (tokens of a sequence, sequences, tokens of prompts in a step) → bytes
Rung = tuple[int, ...]


class Ladder:
    """A surface over context, batch and chunk.

    At a rung it is the most of any rung up to there, because a workload allows shorter and fewer sequences and smaller steps too. Between two
    rungs it is no lower than what grows evenly from one to the other, and than what grows in proportion until it holds what the upper one does,
    as buffers do that are filled tile by tile. What a rung holds is asked for once.
    """

    def __init__(self, measure: Measure, turns: Iterable[int] = (), *, wide: bool = False) -> None:
        """`turns`: tokens of a sequence at which something stops to grow, such as windows; they are rungs too."""
        self._measure = measure
        starts = WIDE if wide else FIRST
        self._sizes = [rungs(first, times, more) for first, times, more in zip(starts, BEYOND, (turns, (), ()), strict=True)]
        self._known: dict[Rung, int] = {}

    def peak(self, context: int, batch: int, chunk: int) -> int:
        """Bytes at the most; below the first rungs, those of the first."""
        return self._over((context, batch, min(chunk, context * batch)), ())

    def _over(self, sizes: Rung, at: Rung) -> int:
        """The same at the rungs `at` of the first axes and at sizes of the others."""
        if not sizes:
            return self._most(at)
        known = self._sizes[len(at)]
        index = max(0, bisect_right(known, sizes[0]) - 1)
        low = self._over(sizes[1:], (*at, index))
        if sizes[0] <= known[index]:
            return low
        return between(low, self._over(sizes[1:], (*at, index + 1)), sizes[0], known[index], known[index + 1])

    def _most(self, at: Rung) -> int:
        """The running maximum."""
        for each in product(*(range(index + 1) for index in at)):
            if each not in self._known:
                below = ((*each[:axis], index - 1, *each[axis + 1 :]) for axis, index in enumerate(each) if index)
                own = self._measure(*(known[index] for index, known in zip(each, self._sizes, strict=True)))
                self._known[each] = max(own, *(self._known[other] for other in below), 0)
        return self._known[at]


def rungs(first: tuple[int, ...], times: int, more: Iterable[int]) -> list[int]:
    """Sizes of an axis, from small to large."""
    found = {*first, *more}
    size = first[-1]
    while size < ENDLESS:
        size *= times
        found.add(size)
    return sorted(found)


def between(low: int, high: int, size: int, first: int, last: int) -> int:
    """At a size between two, of which one has `low` and the other `high`."""
    even = (low * (last - size) + high * (size - first)) // (last - first)
    return max(even, min(high, low * size // first))
