"""Two processes beside the tests: in one Triton interprets, in the other it compiles."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from types import ModuleType

import pytest

from tests.kernels import aot, interpret


def process(prepared: ModuleType) -> Iterator[ProcessPoolExecutor]:
    if find_spec("triton") is None:
        pytest.skip("triton is not installed")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=prepared.start) as pool:
        yield pool


@pytest.fixture(scope="session")
def interpreter() -> Iterator[ProcessPoolExecutor]:
    yield from process(interpret)


@pytest.fixture(scope="session")
def compiler() -> Iterator[ProcessPoolExecutor]:
    yield from process(aot)
