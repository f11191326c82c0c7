"""How long work tells that it goes on, without knowing who listens."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # (what is being done, units done, units in all); units are bytes or pieces


def silent(_what: str, _done: int, _total: int) -> None:
    """Nobody listens."""
