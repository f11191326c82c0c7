"""Progress on stderr: bars on a terminal, one line for each finished piece of work elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from day0.render.console import console
from day0.spec.progress import Progress as Listener


@contextmanager
def progress() -> Iterator[Listener]:
    """A listener to hand to a stage; what it hears is shown until the block ends."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        yield Lines()
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=screen, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def listen(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield listen


class Lines:
    """Says what is done when it is done."""

    def __init__(self) -> None:
        self.started: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        start = self.started.setdefault(what, time.monotonic())
        if done >= total:
            print(f"{what}: {time.monotonic() - start:.1f} s", file=sys.stderr)
            del self.started[what]
