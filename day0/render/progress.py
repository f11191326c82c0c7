"""Progress on stderr: bars on a terminal, elsewhere one line for each piece of work that took a while."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from day0.render.console import console
from day0.render.numbers import seconds

WORTH = 1.0  # seconds of work that are worth a line
PAUSE = 30.0  # seconds between two lines about the same work


@contextmanager
def progress(quiet: bool = False) -> Iterator["Bars | Lines"]:
    """A listener to hand to a stage; what it hears is shown until the block ends. `quiet` writes no lines where there is no terminal."""
    screen = console(sys.stderr)
    listener = Bars(screen) if screen.is_terminal else Lines(quiet)
    try:
        yield listener
    finally:
        listener.clear()


class Bars:
    """One bar a task; they are gone when all tasks are done, so that other output stays in order."""

    def __init__(self, screen: Console) -> None:
        self.screen = screen
        self.tasks: dict[str, TaskID] = {}
        self.bars: Progress | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        if self.bars is None:
            columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
            self.bars = Progress(*columns, console=self.screen, transient=True, redirect_stdout=False, redirect_stderr=False)
            self.bars.start()
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, total=total)
        self.bars.update(self.tasks[what], completed=done, total=total)
        if done >= total:
            self.bars.remove_task(self.tasks.pop(what))
        if not self.tasks:
            self.clear()

    def clear(self) -> None:
        """Take all bars away."""
        if self.bars is not None:
            self.bars.stop()
        self.bars, self.tasks = None, {}


class Lines:
    """Says what is done when it is done, and of long work now and then how long it may still take."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.started: dict[str, float] = {}
        self.told: dict[str, float] = {}  # work → when it was spoken of last

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        start = self.started.setdefault(what, now)
        if 0 < done < total and now - self.told.get(what, start) > PAUSE and not self.quiet:
            self.told[what] = now
            print(f"{what}: {done / total:.0%}, about {seconds((now - start) * (total - done) / done)} left", file=sys.stderr)
        if done >= total:
            took = now - self.started.pop(what)
            if took > WORTH and not self.quiet:
                print(f"{what}: {took:.1f} s", file=sys.stderr)

    def clear(self) -> None:
        """Lines stay."""
