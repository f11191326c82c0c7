"""Arguments on which implementations are compared with references: seeded, over awkward sizes."""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from day0.spec.errors import Day0Error
from day0.spec.lazy import torch
from day0.spec.ops import Case
from day0.spec.packed import Packed


class Draw:
    """Seeded tensors of one case in one compute type."""

    def __init__(self, name: str, dtype: str) -> None:
        self.dtype = getattr(torch, dtype)
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))

    def normal(self, *shape: int, scale: float = 1.0, dtype: Any = None) -> Any:
        """Normal values, rounded to the compute type unless another is given."""
        return (torch.randn(*shape, generator=self.generator, dtype=torch.float64) * scale).to(dtype or self.dtype)

    def packed(self, form: str, *shape: int) -> Packed:
        """A weight [O, I], or a bank of them, as a format stores it: random codes, scales such that a product keeps the size of its input."""
        *stack, rows, columns = shape
        one = columns**-0.5
        if form in ("fp8_block", "mxfp8", "fp8"):
            data = self.normal(*shape, dtype=torch.float32).to(torch.float8_e4m3fn)
        else:
            data = self.integers(256, *stack, rows, -(-columns // 8) * 4 if form == "int4" else -(-columns // 2)).to(torch.uint8)
        sides = {"mxfp4": (1, 32), "mxfp8": (1, 32), "nvfp4": (1, 16), "int4": (1, 32), "fp8_block": (64, 32), "fp8": (1, columns)}[form]
        grid = (*stack, -(-rows // sides[0]), -(-columns // sides[1]))
        factor = (torch.rand(grid, generator=self.generator) + 0.5) * one
        match form:
            case "mxfp4" | "mxfp8":
                parts = {"data": data, "scale": (factor.log2().round() + 127).to(torch.uint8)}
            case "nvfp4":
                parts = {"data": data, "scale": (factor / one).to(torch.float8_e4m3fn), "factor": torch.tensor(one)}
            case "int4":
                parts = {"data": data.view(torch.int32), "scale": (factor / 4).to(torch.bfloat16)}
            case _:
                parts = {"data": data, "scale": factor}
        return Packed(form, parts, () if form == "fp8" else sides, shape, self.dtype, bank=len(shape) == 3)

    def integers(self, high: int, *shape: int) -> Any:
        """Whole numbers below `high`, int64."""
        return torch.randint(high, shape, generator=self.generator)


PACKED = ("mxfp4", "nvfp4", "int4", "fp8_block", "mxfp8", "fp8")  # formats that weights can be drawn in


class Cases:
    """Every combination of axes of an operator's arguments, and more where others are added."""

    def __init__(self, make: Callable[..., dict[str, Any]], axes: dict[str, tuple[Any, ...]]) -> None:
        self._make, self.axes = make, axes
        self._more: tuple[Cases, ...] = ()

    def __call__(self) -> Iterator[Case]:
        for values in product(*self.axes.values()):
            yield self._case(dict(zip(self.axes, values, strict=True)))
        for other in self._more:
            yield from other()

    def __or__(self, other: "Cases") -> "Cases":
        """These, and after them those."""
        both = Cases(self._make, self.axes)
        both._more = (*self._more, other)
        return both

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
