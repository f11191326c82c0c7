"""Shapes and strides: which views there are, and how results lie."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

Shape = tuple[int, ...]
known = lru_cache(maxsize=1 << 14)  # the same few shapes are asked about thousands of times


@known
def dense(shape: Shape) -> Shape:
    """Strides of rows that follow each other."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


@known
def is_dense(shape: Shape, strides: Shape) -> bool:
    """Whether rows follow each other; strides of single elements do not matter."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


@known
def alike(shape: Shape, strides: Shape) -> Shape:
    """Dense strides in the order of `strides`: how the result of an elementwise call lies."""
    if is_dense(shape, strides):
        return dense(shape)
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    made, step = [0] * len(shape), 1
    for axis in reversed(order):
        made[axis] = step
        step *= max(1, shape[axis])
    return tuple(made)


@known
def broadcast(*shapes: Shape) -> Shape:
    """The shape that all of them stretch to."""
    longest = max(map(len, shapes))
    columns = zip(*((1,) * (longest - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    return tuple(next((size for size in column if size != 1), 1) for column in columns)


def filled(shape: Sequence[int], count: int) -> Shape:
    """A shape with its -1 worked out from the number of elements."""
    if -1 not in shape:
        return tuple(shape)
    known = prod(size for size in shape if size != -1)
    return tuple(count // max(1, known) if size == -1 else size for size in shape)


@known
def seen_as(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides that show the same elements in another shape; None where only a copy does."""
    if 0 in shape or is_dense(shape, strides):
        return dense(new)
    made: list[int] = []
    axis = len(new) - 1
    chunk_stride, count, seen = strides[-1], 1, 1
    for old in range(len(shape) - 1, -1, -1):
        count *= shape[old]
        if old == 0 or (shape[old - 1] != 1 and strides[old - 1] != count * chunk_stride):
            while axis >= 0 and (seen < count or new[axis] == 1):
                made.append(seen * chunk_stride)
                seen *= new[axis]
                axis -= 1
            if seen != count:
                return None
            if old > 0:
                chunk_stride, count, seen = strides[old - 1], 1, 1
    return tuple(reversed(made)) if axis < 0 else None
