"""Operators in words of others: both sides are computed by torch, and what runs is what is said."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from day0.engine.compositions import compositions
from day0.engine.watch import VIEWS, is_view, plain_name

ROWS, COLUMNS = 6, 4


class Names(TorchDispatchMode):
    """Notes the operators that compute."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not is_view(func) and plain_name(func) not in VIEWS:
            self.seen.add(plain_name(func))
        return func(*args, **(kwargs or {}))


@contextmanager
def names() -> Iterator[set[str]]:
    mode = Names()
    with mode:
        yield mode.seen


def given() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> torch.Tensor:
        return 4 * torch.randn(*shape, generator=generator)

    return {
        "torch": torch, "functional": functional, "x": draw(ROWS, COLUMNS), "y": draw(ROWS, COLUMNS), "z": draw(ROWS, COLUMNS),
        "p": draw(ROWS, COLUMNS).exp(), "m": draw(ROWS, COLUMNS) > 0, "i": torch.tensor([2, 0, 5]), "c": torch.tensor([3, 0, 1, 3, 2]),
        "n": COLUMNS, "e": 0.5, "q": draw(2, 5, 8), "k": draw(2, 5, 8), "v": draw(2, 5, 8),
    }  # fmt: skip


@pytest.mark.parametrize("name", compositions())
def test_both_ways_give_the_same_and_need_what_is_said(name: str) -> None:
    known, values = compositions()[name], given()
    with names() as first:
        expected = eval(known["is"], values)
    assert name in first
    with names() as second:
        found = eval(known["by"], values)
    assert second == set(known["needs"])
    torch.testing.assert_close(found, expected)
