"""Arguments on which implementations are compared with references: seeded, over awkward sizes."""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from day0.spec.errors import Day0Error
from day0.spec.lazy import torch
from day0.spec.ops import Case


class Draw:
    """Seeded tensors of one case in one compute type."""

    def __init__(self, name: str, dtype: str) -> None:
        self.dtype = getattr(torch, dtype)
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))

    def normal(self, *shape: int, scale: float = 1.0, dtype: Any = None) -> Any:
        """Normal values, rounded to the compute type unless another is given."""
        return (torch.randn(*shape, generator=self.generator, dtype=torch.float64) * scale).to(dtype or self.dtype)

    def integers(self, high: int, *shape: int) -> Any:
        """Whole numbers below `high`, int64."""
        return torch.randint(high, shape, generator=self.generator)


class Cases:
    """Every combination of axes of an operator's arguments."""

    def __init__(self, make: Callable[..., dict[str, Any]], axes: dict[str, tuple[Any, ...]]) -> None:
        self._make, self.axes = make, axes

    def __call__(self) -> Iterator[Case]:
        for values in product(*self.axes.values()):
            yield self._case(dict(zip(self.axes, values, strict=True)))

    def at(self, **sizes: Any) -> Case:
        """One case of given sizes; axes that are not given have their first value. Day0Error for an axis that there is not."""
        unknown = sorted(set(sizes) - set(self.axes))
        if unknown:
            raise Day0Error(f"its cases have no axis {', '.join(unknown)}", hint=f"axes: {', '.join(self.axes)}")
        first = {axis: values[0] for axis, values in self.axes.items()}
        lists = {axis for axis, value in first.items() if isinstance(value, tuple)}
        given = {axis: (size,) if axis in lists and not isinstance(size, tuple) else size for axis, size in sizes.items()}
        return self._case(first | given)

    def _case(self, sizes: dict[str, Any]) -> Case:
        name = "-".join(f"{axis}{value}" for axis, value in sizes.items())
        return Case(name=name, make=partial(_make, self._make, name, sizes))


def cases(make: Callable[..., dict[str, Any]], **axes: tuple[Any, ...]) -> Cases:
    """One case for every combination of `axes`; `make(draw, **sizes)` gives the keyword arguments."""
    return Cases(make, axes)


def _make(make: Callable[..., dict[str, Any]], name: str, sizes: dict[str, Any], dtype: str, draw: type[Draw] = Draw) -> dict[str, Any]:
    return make(draw(name, dtype), **sizes)
