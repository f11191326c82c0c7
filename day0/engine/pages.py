"""Numbers of fixed-size pages: handed out in runs where possible, shared by counting."""

from collections.abc import Iterable


class Pages:
    """Pages 0 … count - 1, each free or used by one sequence or more."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._users = [0] * count
        self._free = bytearray(b"\1" * count)  # 1 where free: a run is found by searching for a row of ones

    @property
    def used(self) -> int:
        """Pages that are not free."""
        return self.count - self._free.count(1)

    def allocate(self, count: int) -> list[int] | None:
        """`count` free pages, neighbours when there is such a run; None when there are not that many."""
        if self._free.count(1) < count:
            return None
        start = self._free.find(b"\1" * count)
        pages = list(range(start, start + count)) if start >= 0 else [p for p in range(self.count) if self._free[p]][:count]
        for page in pages:
            self._users[page], self._free[page] = 1, 0
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One more user of pages that are in use."""
        for page in pages:
            assert self._users[page] > 0, f"page {page} is free and cannot be shared"
            self._users[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One user less; a page without users is free."""
        for page in pages:
            assert self._users[page] > 0, f"page {page} was released twice"
            self._users[page] -= 1
            self._free[page] = self._users[page] == 0
