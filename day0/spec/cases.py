"""Arguments on which implementations are compared with references: seeded, over awkward sizes."""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

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


def cases(make: Callable[..., dict[str, Any]], **axes: tuple[Any, ...]) -> Callable[[], Iterator[Case]]:
    """One case for every combination of `axes`; `make(draw, **sizes)` gives the keyword arguments."""

    def generate() -> Iterator[Case]:
        for values in product(*axes.values()):
            sizes = dict(zip(axes, values, strict=True))
            name = "-".join(f"{axis}{value}" for axis, value in sizes.items())
            yield Case(name=name, make=partial(_make, make, name, sizes))

    return generate


def _make(make: Callable[..., dict[str, Any]], name: str, sizes: dict[str, Any], dtype: str) -> dict[str, Any]:
    return make(Draw(name, dtype), **sizes)
