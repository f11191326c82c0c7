"""Operators and kernels on shadows hold what torch's allocator says they hold on tensors."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch

from day0.engine.shadow.reading import Reading
from day0.spec.ops import Case
from day0.spec.registry import kernels, ops
from tests.plan.allocator import peak, rehearsed, shadowed

TRIES = 8  # cases of each
SMALL = 8 << 10  # bytes that do not matter
# Reference of an operator → how far above torch its rehearsal may be: which experts are chosen is not known, and sums are reshaped freely.
ABOVE = {"experts": 1.6, "experts_torch": 1.6, "block_sparse_attention": 1.25, "index_select_torch": 1.5}


@cache
def reading() -> Reading:
    return Reading()


def subjects() -> list[str]:
    return [f"ops.{name}" for name in ops().names()] + [f"kernels.{name}" for name in kernels().names() if name.endswith("_torch")]


def functions(subject: str) -> tuple[Callable[..., Any], Callable[..., Any], list[Case]]:
    """(on tensors, on shadows, cases that it accepts)."""
    kind, name = subject.split(".")
    twin = reading().module(f"day0.{subject}")
    if kind == "ops":
        op = ops().get(name)
        return op.reference, twin.OP.reference, list(op.cases())
    impl = kernels().get(name)
    return impl.fn, twin.IMPL.fn, list(ops().get(impl.op).cases())


def measured(subject: str, dtype: str) -> Iterator[tuple[str, int, int]]:
    """(case, bytes on tensors, bytes on shadows)."""
    real, shadow, cases = functions(subject)
    random.Random(subject).shuffle(cases)
    for case in cases[: 3 * TRIES]:
        arguments = case.make(dtype)
        try:
            found = peak(lambda given=arguments: real(**given))  # type: ignore[misc]
        except (RuntimeError, TypeError, IndexError):
            continue  # a kernel that refuses such calls
        other = shadowed(arguments, reading())
        yield case.name, found, rehearsed(lambda given=other: shadow(**given), reading())  # type: ignore[misc]


@pytest.mark.parametrize("subject", subjects())
def test_peaks_are_those_of_the_allocator(subject: str) -> None:
    tried = 0
    with torch.inference_mode():
        for name, found, rehearsal in measured(subject, "float32"):
            above = ABOVE.get(subject.split(".")[1], 1.1)
            assert 0.9 * found - SMALL <= rehearsal <= above * found + SMALL, f"{name}: {rehearsal} for {found}"
            tried += 1
            if tried == TRIES:
                break
    assert tried


@pytest.mark.parametrize("part", [slice(2, None), slice(None, 3), slice(-2, None), slice(5, 3), slice(1, 99)], ids=str)
def test_slices_lie_where_those_of_torch_lie(part: slice) -> None:
    ours, theirs = Reading().torch.empty(7, 4, dtype=torch.float32).t()[part], torch.empty(7, 4).t()[part]
    assert (ours.shape, ours.strides, ours.offset) == (tuple(theirs.shape), theirs.stride(), theirs.storage_offset() * 4)
