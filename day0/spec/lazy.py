"""torch, numpy and Triton, imported when they are first used: planning stages read files of operators, kernels and formats without them."""

import importlib
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module and becomes it attribute by attribute."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self.__dict__["_name"]), attribute)
        self.__dict__[attribute] = value
        return value


class Triton(LazyModule):
    """Stands for Triton; functions under its `jit` are compiled when they are first launched."""

    def jit(self, fn: Callable[..., Any]) -> "Kernel":
        """In place of `triton.jit`."""
        return Kernel(fn)


class Kernel:
    """A function in Triton's language. Annotations of its file are not evaluated (`from __future__ import annotations`)."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    @cached_property
    def compiled(self) -> Any:
        """What `triton.jit` makes of it, once the names that it reads in its module have become what they stand for."""
        os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.10 takes another default
        names = self.fn.__globals__
        for name in self.fn.__code__.co_names:
            value = names.get(name)
            if isinstance(value, LazyModule):
                names[name] = importlib.import_module(value.__dict__["_name"])
            elif isinstance(value, Kernel):
                names[name] = value.compiled
        return importlib.import_module("triton").jit(self.fn)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """`kernel[grid](...)`: launch it."""
        launch: Callable[..., Any] = self.compiled[grid]
        return launch


if TYPE_CHECKING:
    import numpy
    import torch
    import torch.nn.functional as functional

    tl: Any
    triton: Any
else:
    numpy = LazyModule("numpy")
    torch = LazyModule("torch")
    functional = LazyModule("torch.nn.functional")
    triton = Triton("triton")
    tl = LazyModule("triton.language")


def wide(x: "torch.Tensor") -> "torch.Tensor":
    """`x` in the precision that references compute in: float32, or float64 when it already is."""
    return x if x.dtype == torch.float64 else x.float()


TORCH_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "U16": "uint16", "U32": "uint32", "U64": "uint64",
}  # fmt: skip


def torch_dtype(name: str) -> "torch.dtype":
    """torch's type for a safetensors or compute type; types of less than a byte are read as bytes."""
    return getattr(torch, TORCH_NAMES.get(name, name if name[0].islower() else "uint8"))


__all__ = ["Kernel", "LazyModule", "Triton", "functional", "numpy", "tl", "torch", "torch_dtype", "triton", "wide"]
