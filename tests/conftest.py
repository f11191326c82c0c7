"""Every test: one thread a process, and memory that torch has not initialised holds NaN, or the largest whole number."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def poisoned_memory() -> Iterator[None]:
    """torch fills `torch.empty` in its deterministic mode; a test that has not imported torch is left alone."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
