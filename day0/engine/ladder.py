"""What a workload may hold at once, from what a few sizes of it hold: never less where one of its sizes grows. Needs no torch."""

from collections.abc import Callable
from itertools import product
from math import prod

FIRST = ((48, 96, 192, 384), (1, 8), (16, 128, 512))  # rungs: tokens of a sequence, sequences, tokens of prompts in a step
BEYOND = (8, 8, 4)  # times by which later rungs grow

Measure = Callable[[int, int, int], int]  # (tokens of a sequence, sequences, tokens of prompts in a step) → bytes
Rung = tuple[int, ...]


class Ladder:
    """A surface over context, batch and chunk.

    At a rung it is the most of any rung up to there, because a workload allows shorter and fewer sequences and smaller steps too; between
    rungs it lies on the lines that join them. What a rung holds is asked for once.
    """

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._rungs: dict[Rung, int] = {}

    def peak(self, context: int, batch: int, chunk: int) -> int:
        """Bytes at the most; below the first rungs, those of the first."""
        places = [placed(size, axis) for axis, size in enumerate((context, batch, chunk))]
        total = 0
        for ends in product((0, 1), repeat=len(places)):
            share = prod(above if end else length - above for end, (_, above, length) in zip(ends, places, strict=True))
            total += share and share * self._most(tuple(index + end for end, (index, _, _) in zip(ends, places, strict=True)))
        return total // prod(length for _, _, length in places)

    def _most(self, at: Rung) -> int:
        """The running maximum."""
        for each in product(*(range(index + 1) for index in at)):
            if each not in self._rungs:
                below = (each[:axis] + (index - 1,) + each[axis + 1 :] for axis, index in enumerate(each) if index)
                own = self._measure(*(rung(index, axis) for axis, index in enumerate(each)))
                self._rungs[each] = max(own, *(self._rungs[other] for other in below), 0)
        return self._rungs[at]


def rung(index: int, axis: int) -> int:
    """Size at a rung of an axis."""
    first, beyond = FIRST[axis], index - len(FIRST[axis]) + 1
    return first[index] if beyond <= 0 else first[-1] * BEYOND[axis] ** beyond


def placed(size: int, axis: int) -> tuple[int, int, int]:
    """(rung below, how far above it, distance between it and the next)."""
    index = 0
    while rung(index + 1, axis) <= size:
        index += 1
    low, high = rung(index, axis), rung(index + 1, axis)
    return index, max(0, size - low), high - low
