"""Which operator calls a result was computed from."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from day0.engine.probe import Call


@dataclass
class Made:
    """One call with the calls before it that its arguments were computed from."""

    call: Call
    before: frozenset[int]
    results: list[Tensor] = field(default_factory=list)


class Trail(TorchFunctionMode):
    """Follows results of operator calls through whatever torch does with them: memory that is written carries what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Made] = []
        self._carried: dict[int, frozenset[int]] = {}  # address of memory → calls whose results went into it
        self._kept: list[Tensor] = []  # so that no address is used twice

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            sources = self._of(_tensors((*args, *(kwargs or {}).values())))
            if sources:
                self._carry(_tensors((result,)), sources)
        return result

    def call(self, call: Call) -> None:
        """The `judge` of a probe."""
        with torch._C.DisableTorchFunction():
            results = [tensor for tensor in _tensors((call.result,)) if tensor.is_floating_point()]
            before = self._of(_tensors((*call.args, *call.kwargs.values())))
            self.calls.append(Made(call, before, [tensor.clone() for tensor in results]))
            self._carry(_tensors((call.result,)), before | {len(self.calls) - 1})

    def _of(self, tensors: Iterable[Tensor]) -> frozenset[int]:
        return frozenset().union(*(self._carried.get(_address(tensor), frozenset()) for tensor in tensors))

    def _carry(self, tensors: Iterable[Tensor], calls: frozenset[int]) -> None:
        for tensor in tensors:
            self._kept.append(tensor)
            self._carried[_address(tensor)] = self._carried.get(_address(tensor), frozenset()) | calls


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)
