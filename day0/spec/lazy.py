"""torch and numpy, imported when they are first used: planning stages read files of operators, kernels and formats without torch."""

import importlib
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module and becomes it attribute by attribute."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self.__dict__["_name"]), attribute)
        self.__dict__[attribute] = value
        return value


if TYPE_CHECKING:
    import numpy
    import torch
    import torch.nn.functional as functional
else:
    numpy = LazyModule("numpy")
    torch = LazyModule("torch")
    functional = LazyModule("torch.nn.functional")


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


__all__ = ["LazyModule", "functional", "numpy", "torch", "torch_dtype", "wide"]
