"""torch, imported when it is first used: files of operators, kernels and formats can be read by planning stages that have no torch."""

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
    import torch
    import torch.nn.functional as functional
else:
    torch = LazyModule("torch")
    functional = LazyModule("torch.nn.functional")

__all__ = ["LazyModule", "functional", "torch"]
