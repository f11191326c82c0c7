"""What a workload may hold at once, from what a few sizes of it hold: never less where one of its sizes grows. Needs no torch."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import product
from math import prod

FIRST = ((64, 128, 192, 256, 512), (1, 8), (16, 64, 128, 192, 256, 512))
BEYOND = (8, 8, 4)  # times by which later rungs grow
ENDLESS = 1 << 60

Measure = Callable[[int, int, int], int]  # (tokens of a sequence, sequences, tokens of prompts in a step) → bytes
Rung = tuple[int, ...]


class Ladder:
    """A surface over context, batch and chunk.

    At a rung it is the most of any rung up to there, because a workload allows shorter and fewer sequences and smaller steps too; between
    rungs it lies on the lines that join them. What a rung holds is asked for once.
    """

    def __init__(self, measure: Measure, turns: Iterable[int] = ()) -> None:
        """`turns`: tokens of a sequence at which something stops to grow, such as windows; they are rungs too."""
        self._measure = measure
        self._sizes = [rungs(first, times, more) for first, times, more in zip(FIRST, BEYOND, (turns, (), ()), strict=True)]
        self._known: dict[Rung, int] = {}

    def peak(self, context: int, batch: int, chunk: int) -> int:
        """Bytes at the most; below the first rungs, those of the first."""
        sizes = (context, batch, min(chunk, context * batch))
        places = [placed(size, known) for size, known in zip(sizes, self._sizes, strict=True)]
        total = 0
        for ends in product((0, 1), repeat=len(places)):
            share = prod(above if end else length - above for end, (_, above, length) in zip(ends, places, strict=True))
            total += share and share * self._most(tuple(index + end for end, (index, _, _) in zip(ends, places, strict=True)))
        return total // prod(length for _, _, length in places)

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


def placed(size: int, known: list[int]) -> tuple[int, int, int]:
    """(rung below, how far above it, distance between it and the next)."""
    index = max(0, bisect_right(known, size) - 1)
    return index, max(0, size - known[index]), known[index + 1] - known[index]
