"""Allocations that are only counted."""


class Heap:
    """Bytes that live now, and the most there were."""

    def __init__(self) -> None:
        self.live = self.peak = 0

    def restart(self) -> None:
        """Count the peak from what lives now."""
        self.peak = self.live

    def scratch(self, size: int) -> None:
        """Bytes that are taken and given back within one call."""
        self.peak = max(self.peak, self.live + size)


class Block:
    """One allocation; it ends with the last tensor that shows a part of it."""

    __slots__ = ("heap", "size")

    def __init__(self, heap: Heap, size: int) -> None:
        self.heap, self.size = heap, size
        heap.live += size
        if heap.live > heap.peak:
            heap.peak = heap.live

    def __del__(self) -> None:
        self.heap.live -= self.size
