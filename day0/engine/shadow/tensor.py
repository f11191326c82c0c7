"""The stand-in for a tensor: shape, strides, type, and the allocation that it shows."""

from collections.abc import Iterator, Sequence
from math import ceil, prod
from typing import Any

from day0.engine.shadow import layout
from day0.engine.shadow.dtype import BOOL, COMPLEX64, DTYPES, FLOAT32, INT64, Dtype, floating, joined, of_value
from day0.engine.shadow.heap import Block, Heap
from day0.engine.shadow.layout import Shape

UNEVEN = 2  # times the mean that the most wanted of several choices is wanted


class Device:
    """Where tensors would be."""

    def __init__(self, type: str = "cpu") -> None:
        self.type = type


class Shadow:
    """A tensor without values. A call that would copy allocates, a call that would only look does not."""

    __slots__ = ("block", "dtype", "heap", "limit", "offset", "shape", "strides", "values")

    def __init__(self, heap: Heap, shape: Shape, dtype: Dtype, strides: Shape | None = None, block: Block | None = None, offset: int = 0) -> None:
        self.heap, self.shape, self.dtype = heap, shape, dtype
        self.strides = layout.dense(shape) if strides is None else strides
        self.block = Block(heap, prod(shape) * dtype.itemsize) if block is None else block
        self.offset = offset  # bytes from the start of the allocation
        self.limit: float = 0  # of a choice: among how many; of a comparison with one: the share of hits
        self.values: Sequence[int] | None = None  # of a list of lengths

    # What it is.

    device = Device()
    is_cpu = True
    requires_grad = False
    ndim = property(lambda self: len(self.shape))
    nbytes = property(lambda self: prod(self.shape) * self.dtype.itemsize)
    T = property(lambda self: self.t())
    mT = property(lambda self: self.transpose(-2, -1))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator["Shadow"]:
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        return True

    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def stride(self, axis: int | None = None) -> Any:
        return self.strides if axis is None else self.strides[axis]

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return (id(self.block) << 48) + self.offset

    def is_contiguous(self) -> bool:
        return layout.is_dense(self.shape, self.strides)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def item(self) -> int:
        return 0

    def tolist(self) -> Any:
        return list(self.values) if self.values is not None else zeros(self.shape)

    # Others of the same heap.

    def made(self, shape: Shape, dtype: Dtype | None = None, strides: Shape | None = None) -> "Shadow":
        """A new one with an allocation of its own."""
        return type(self)(self.heap, shape, dtype or self.dtype, strides)

    def like(self, dtype: Dtype | None = None) -> "Shadow":
        """A new one of this shape and order of strides."""
        return type(self)(self.heap, self.shape, dtype or self.dtype, layout.alike(self.shape, self.strides))

    def view_of(self, shape: Shape, strides: Shape, offset: int = 0) -> "Shadow":
        """Another look at the same allocation, `offset` elements further on."""
        seen = type(self)(self.heap, shape, self.dtype, strides, self.block, self.offset + offset * self.dtype.itemsize)
        seen.limit = self.limit
        return seen

    # Views.

    def view(self, *shape: Any) -> "Shadow":
        if isinstance(shape[0], Dtype):
            return self.viewed_as(shape[0])
        seen = self.reshaped(_sizes(shape))
        assert seen is not None, f"no view of {self.shape} {self.strides} as {shape}"
        return seen

    def viewed_as(self, dtype: Dtype) -> "Shadow":
        ratio = self.dtype.itemsize / dtype.itemsize
        shape = (*self.shape[:-1], int(self.shape[-1] * ratio)) if self.shape else ()
        strides = tuple(int(stride * ratio) for stride in self.strides[:-1]) + self.strides[-1:]
        return type(self)(self.heap, shape, dtype, strides, self.block, self.offset)

    def reshaped(self, sizes: Sequence[int]) -> "Shadow | None":
        """The view, where there is one."""
        shape = layout.filled(sizes, prod(self.shape))
        strides = layout.seen_as(self.shape, self.strides, shape) if self.shape else layout.dense(shape)
        return None if strides is None else self.view_of(shape, strides)

    def reshape(self, *shape: Any) -> "Shadow":
        sizes = _sizes(shape)
        seen = self.reshaped(sizes)
        if seen is None:
            seen = self.made(layout.filled(sizes, prod(self.shape)))
            seen.limit = self.limit
        return seen

    def view_as(self, other: "Shadow") -> "Shadow":
        return self.view(*other.shape)

    def flatten(self, start: int = 0, end: int = -1) -> "Shadow":
        start, end = self.axis(start) if self.shape else 0, self.axis(end) if self.shape else 0
        return self.reshape(*self.shape[:start], prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def unflatten(self, axis: int, sizes: Sequence[int]) -> "Shadow":
        axis = self.axis(axis)
        return self.view(*self.shape[:axis], *layout.filled(tuple(sizes), self.shape[axis]), *self.shape[axis + 1 :])

    def permute(self, *order: Any) -> "Shadow":
        axes = [self.axis(axis) for axis in _sizes(order)]
        return self.view_of(tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes))

    def transpose(self, first: int, second: int) -> "Shadow":
        order = list(range(self.ndim))
        first, second = self.axis(first), self.axis(second)
        order[first], order[second] = second, first
        return self.permute(*order)

    def t(self) -> "Shadow":
        return self.permute(*range(self.ndim)[::-1])

    def expand(self, *shape: Any) -> "Shadow":
        sizes = _sizes(shape)
        lead = len(sizes) - self.ndim
        old, steps = (1,) * lead + self.shape, (0,) * lead + self.strides
        made = tuple(before if size == -1 else size for size, before in zip(sizes, old, strict=True))
        strides = tuple(0 if size != before else step for size, before, step in zip(made, old, steps, strict=True))
        return self.view_of(made, strides)

    def expand_as(self, other: "Shadow") -> "Shadow":
        return self.expand(*other.shape)

    def unsqueeze(self, axis: int) -> "Shadow":
        axis = axis % (self.ndim + 1)
        return self.view_of((*self.shape[:axis], 1, *self.shape[axis:]), (*self.strides[:axis], 1, *self.strides[axis:]))

    def squeeze(self, axis: int) -> "Shadow":
        axis = self.axis(axis)
        return self.view_of(self.shape[:axis] + self.shape[axis + 1 :], self.strides[:axis] + self.strides[axis + 1 :])

    def narrow(self, axis: int, start: int, count: int) -> "Shadow":
        axis = self.axis(axis)
        shape = (*self.shape[:axis], max(0, count), *self.shape[axis + 1 :])
        return self.view_of(shape, self.strides, start * self.strides[axis])

    def select(self, axis: int, index: int) -> "Shadow":
        axis = self.axis(axis)
        offset = (index % max(1, self.shape[axis])) * self.strides[axis]
        return self.view_of(self.shape[:axis] + self.shape[axis + 1 :], self.strides[:axis] + self.strides[axis + 1 :], offset)

    def split(self, size: Any, dim: int = 0) -> tuple["Shadow", ...]:
        axis = self.axis(dim)
        total = self.shape[axis]
        sizes = [min(size, total - at) for at in range(0, max(1, total), size)] if isinstance(size, int) else list(size)
        return tuple(self.narrow(axis, sum(sizes[:i]), count) for i, count in enumerate(sizes))

    def chunk(self, count: int, dim: int = 0) -> tuple["Shadow", ...]:
        return self.split(ceil(self.shape[self.axis(dim)] / count), dim)

    def unbind(self, dim: int = 0) -> tuple["Shadow", ...]:
        return tuple(self.select(dim, index) for index in range(self.shape[self.axis(dim)]))

    def unfold(self, axis: int, size: int, step: int) -> "Shadow":
        axis = self.axis(axis)
        shape = (*self.shape[:axis], (self.shape[axis] - size) // step + 1, *self.shape[axis + 1 :], size)
        strides = (*self.strides[:axis], self.strides[axis] * step, *self.strides[axis + 1 :], self.strides[axis])
        return self.view_of(shape, strides)

    def as_strided(self, shape: Sequence[int], strides: Sequence[int]) -> "Shadow":
        return self.view_of(tuple(shape), tuple(strides))

    def axis(self, axis: int) -> int:
        """Counted from the front."""
        assert -len(self.shape) <= axis < len(self.shape), f"no axis {axis} in {self.shape}"
        return axis % len(self.shape)

    # Copies.

    def clone(self) -> "Shadow":
        return self.like()

    def contiguous(self) -> "Shadow":
        return self if self.is_contiguous() else self.made(self.shape)

    def to(self, *wanted: Any, dtype: Dtype | None = None, device: Any = None) -> "Shadow":
        found = next((value for value in wanted if isinstance(value, Dtype)), dtype)
        if found is None or found is self.dtype:
            return self
        made = self.like(found)
        made.limit = self.limit
        return made

    def float(self) -> "Shadow":
        return self.to(FLOAT32)

    def double(self) -> "Shadow":
        return self.to(DTYPES["float64"])

    def int(self) -> "Shadow":
        return self.to(DTYPES["int32"])

    def long(self) -> "Shadow":
        return self.to(INT64)

    def bool(self) -> "Shadow":
        return self.to(BOOL)

    def copy_(self, other: "Shadow") -> "Shadow":
        return self

    # Elements and rows by number.

    def __getitem__(self, index: Any) -> "Shadow":
        if isinstance(index, slice) and index.step is None:
            start, stop, _ = index.indices(self.shape[0])
            return self.view_of((max(0, stop - start), *self.shape[1:]), self.strides, start * self.strides[0])
        return looked_up(self, index if isinstance(index, tuple) else (index,))

    def __setitem__(self, index: Any, value: Any) -> None:
        looked_at = self[index]
        if isinstance(value, Shadow) and value.dtype is not self.dtype and looked_at.block is not self.block:
            self.heap.scratch(prod(value.shape) * self.dtype.itemsize)


def zeros(shape: Shape) -> Any:
    """Nested lists."""
    return [zeros(shape[1:]) for _ in range(shape[0])] if shape else 0


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], tuple | list) else given


def looked_up(x: Shadow, index: tuple[Any, ...]) -> Shadow:
    """Numbers, slices, None and … give a view; lists and tensors of numbers or of truths a copy."""
    taken = sum(one is not None and one is not Ellipsis for one in index)
    if Ellipsis in [one for one in index if not isinstance(one, Shadow)]:
        at = next(i for i, one in enumerate(index) if one is Ellipsis)
        index = (*index[:at], *(slice(None),) * (x.ndim - taken), *index[at + 1 :])
    axis, chosen = 0, []
    for one in index:
        if one is None:
            x, axis = x.unsqueeze(axis), axis + 1
        elif isinstance(one, slice):
            start, stop, step = one.indices(x.shape[axis])
            count = max(0, -(-(stop - start) // step))
            seen = x.narrow(axis, start, count)
            x = seen if step == 1 else x.view_of(seen.shape, (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1 :]))
            axis += 1
        elif isinstance(one, Shadow | list):
            chosen.append((axis, one))
            axis += 1
        else:
            x = x.select(axis, int(one))
    return gathered(x, chosen) if chosen else x


def gathered(x: Shadow, chosen: list[tuple[int, Any]]) -> Shadow:
    """A copy of what is chosen along some axes; where these are neighbours the result's axes stand in their place."""
    held = [one if isinstance(one, Shadow) else Shadow(x.heap, (len(one),), INT64) for _, one in chosen]
    held = [Shadow(x.heap, (prod(one.shape),), INT64) if one.dtype is BOOL else one for one in held]
    axes = [axis for axis, _ in chosen]
    shape = layout.broadcast(*(one.shape for one in held))
    rest = [size for axis, size in enumerate(x.shape) if axis not in axes]
    at = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    return x.made((*rest[:at], *shape, *rest[at:]))


__all__ = ["COMPLEX64", "UNEVEN", "Device", "Shadow", "floating", "joined", "of_value"]
