"""The stand-in for torch: what modules find in its place when they are read on shadows."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from day0.engine.shadow import arithmetic, products
from day0.engine.shadow.dtype import BOOL, COMPLEX64, DTYPES, FLOAT32, INT64, Dtype, joined, of_value
from day0.engine.shadow.heap import Heap
from day0.engine.shadow.tensor import Device, Shadow


class Tensor(Shadow):
    """A shadow with torch's methods and operators."""

    __slots__ = ()
    __hash__ = object.__hash__


METHODS = {**arithmetic.methods(), "__matmul__": products.matmul}
for _name, _function in METHODS.items():
    setattr(Tensor, _name, _function)


class Module(SimpleNamespace):
    """`torch`, on one heap."""

    def __init__(self, heap: Heap) -> None:
        super().__init__(**METHODS, **DTYPES, **products.FUNCTIONS)
        self.heap, self.Tensor, self.dtype, self.device, self.Size = heap, Tensor, Dtype, Device, tuple
        self.where, self.addcmul = arithmetic.where, arithmetic.addcmul
        self.view_as_complex, self.view_as_real = arithmetic.view_as_complex, arithmetic.view_as_real
        self.linalg = SimpleNamespace(vector_norm=products.vector_norm, solve_triangular=products.solve_triangular)
        self.nn = SimpleNamespace(functional=SimpleNamespace(**METHODS, **products.FUNCTIONS))
        self.inf, self.nan, self.Generator = float("inf"), float("nan"), Generator

    def inference_mode(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Functions as they are."""
        return lambda function: function

    def tensor(self, value: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
        """From numbers; a list of whole numbers is remembered, because some of them are lengths."""
        shape, first = [], value
        while isinstance(first, list | tuple | range):
            shape.append(len(first))
            first = first[0] if first else 0.0
        made = Tensor(self.heap, tuple(shape), dtype or of_value(first))
        made.values = value if len(shape) == 1 and isinstance(first, int) else None
        return made

    def empty(self, *shape: Any, dtype: Dtype | None = None, device: Any = None, generator: Any = None) -> Tensor:
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return Tensor(self.heap, tuple(sizes), dtype or FLOAT32)

    zeros = ones = rand = empty

    def full(self, shape: Any, value: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
        return Tensor(self.heap, tuple(shape), dtype or of_value(value))

    def zeros_like(self, x: Tensor, dtype: Dtype | None = None) -> Tensor:
        return x.like(dtype)  # type: ignore[return-value]

    ones_like = empty_like = zeros_like

    def arange(self, start: int, end: int | None = None, step: int = 1, dtype: Dtype | None = None, device: Any = None) -> Tensor:
        count = len(range(start) if end is None else range(start, end, step))
        return Tensor(self.heap, (count,), dtype or INT64)

    def cat(self, tensors: Iterable[Tensor], dim: int = 0) -> Tensor:
        """Along an axis; empty lists of one axis do not count, types are joined."""
        parts = list(tensors)
        counted = [one for one in parts if one.shape != (0,)] or parts
        axis, dtype = counted[0].axis(dim), counted[0].dtype
        for one in counted:
            dtype = joined(dtype, one.dtype)
        shape = counted[0].shape
        total = sum(one.shape[axis] for one in counted)
        return counted[0].made((*shape[:axis], total, *shape[axis + 1 :]), dtype)  # type: ignore[return-value]

    def stack(self, tensors: Iterable[Tensor], dim: int = 0) -> Tensor:
        return self.cat([one.unsqueeze(dim) for one in tensors], dim)  # type: ignore[misc]

    def complex(self, real: Tensor, imaginary: Tensor) -> Tensor:
        return real.made(real.shape, COMPLEX64)  # type: ignore[return-value]

    def isin(self, x: Tensor, among: Tensor) -> Tensor:
        return x.made(x.shape, BOOL)  # type: ignore[return-value]

    def searchsorted(self, sums: Tensor, targets: Tensor, right: bool = False) -> Tensor:
        return targets.made(targets.shape, INT64)  # type: ignore[return-value]


class Generator:
    """Random numbers are never looked at."""

    def manual_seed(self, seed: int) -> "Generator":
        return self
