"""Allocations that are only counted."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READ = ("blocks", "engine", "kernels", "ops", "spec")  # folders whose files are run on shadows


class NotRehearsed(AttributeError):
    """Code asks for something that shadows do not know."""

    @classmethod
    def of(cls, error: Exception) -> "NotRehearsed":
        """What went wrong, and in which file outside of this folder."""
        files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
        asking = next((file for file in reversed(files) if file.parent.name in READ), files[-1])
        return cls(f"{error or type(error).__name__}, in {asking.parent.name}/{asking.name}")


class Heap:
    """Bytes that live now, and the most there were: in the current section, and in each that was entered before."""

    def __init__(self) -> None:
        self.live = self.peak = self.run = 0
        self.counts = True
        self.section = ""
        self.peaks: dict[str, int] = {}

    def restart(self) -> None:
        """Count a run of its own from nothing, in no section: what lives on from those before does not count, nor does its end."""
        self.live = self.peak = 0
        self.run += 1
        self.section = ""
        self.peaks.clear()

    def enter(self, section: str) -> int:
        """Count what follows by this name; returns the most of the section that ends."""
        ended = self.peak
        self.peaks[self.section] = max(self.peaks.get(self.section, 0), ended)
        self.peak, self.section = self.live, section
        return ended

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is allocated meanwhile does not count."""
        counted, self.counts = self.counts, False
        try:
            yield
        finally:
            self.counts = counted

    def scratch(self, size: int) -> None:
        """Bytes that are taken and given back within one call."""
        self.peak = max(self.peak, self.live + size)


class Block:
    """One allocation; it ends with the last tensor that shows a part of it."""

    __slots__ = ("heap", "run", "size")

    def __init__(self, heap: Heap, size: int) -> None:
        self.heap, self.run, self.size = heap, heap.run, size if heap.counts else 0
        heap.live += self.size
        if heap.live > heap.peak:
            heap.peak = heap.live

    def __del__(self) -> None:
        if self.run == self.heap.run:
            self.heap.live -= self.size
