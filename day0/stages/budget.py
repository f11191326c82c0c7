"""The time that a comparison may take: it stops between two pieces of work, and says where."""

import time
from collections.abc import Callable

from day0.spec.progress import Progress


class Spent(Exception):
    """The time is over; what was measured so far stands."""

    def __init__(self, what: str, done: int, total: int) -> None:
        super().__init__(what)
        self.what, self.done, self.total = what, done, total


class Budget:
    """Passes progress on, and raises `Spent` at the first piece of work that would begin after so many minutes; None: never."""

    def __init__(self, minutes: float | None, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self.minutes, self.spent = minutes, False
        self._progress, self._clock = progress, clock
        self._end = None if minutes is None else clock() + 60 * minutes

    def __call__(self, what: str, done: int, total: int) -> None:
        self._progress(what, done, total)
        if done < total and self._end is not None and self._clock() >= self._end:
            self.spent = True
            raise Spent(what, done, total)
