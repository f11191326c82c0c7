"""torch's operators as they are called: who calls which, and a target that refuses those it lacks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from day0.engine.bind import Function, Place
from day0.engine.targets import find_target
from day0.spec.errors import Day0Error
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.target import Target, Uses

VIEWS = frozenset({"detach", "alias", "lift_fresh", "_unsafe_view", "_local_scalar_dense", "resize", "set"})
WHOLE = "scaled_dot_product_attention"  # one operator with a kernel for each device, which its parts would not tell
SAME = {"_to_copy": "copy", "mv": "mm", "addmv": "addmm"}  # names of one operator at other sizes
BETWEEN = "between"  # caller of what blocks and the engine compute between operators


def plain_name(func: Any) -> str:
    """A torch operator without namespace, overload and the mark of working in place; every kernel of SDPA is one operator."""
    name = func._schema.name.partition("::")[2]
    if name.startswith("_scaled_dot_product"):
        return WHOLE
    return SAME.get(name, name if name.startswith("__") else name.rstrip("_"))


def is_view(func: Any) -> bool:
    """Whether it only looks at its argument in another way."""
    return any(given.alias_info is not None and not given.alias_info.is_write for given in func._schema.returns)


class Watch(TorchDispatchMode):
    """Notes torch operators and number types by caller: (operator of day0 or `BETWEEN`, whatever tells calls apart)."""

    def __init__(self) -> None:
        super().__init__()
        self.caller: Any = BETWEEN
        self._entered = 0
        self.operators: dict[Any, set[str]] = {}
        self.types: dict[Any, set[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
        if composite and plain_name(func) != WHOLE:
            with self._again():
                inner = func.decompose(*args, **kwargs)
            if inner is not NotImplemented:
                return inner
        name, moved = plain_name(func), not (is_view(func) or plain_name(func) in VIEWS)
        if moved:
            self.see(name, {str(one.dtype).removeprefix("torch.") for one in tensors((args, kwargs))})
        result = func(*args, **kwargs)
        if moved:
            self.see(name, {str(one.dtype).removeprefix("torch.") for one in tensors(result)})
        return result

    def __enter__(self) -> "Watch":
        self._entered += 1
        if self._entered == 1:
            super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered -= 1
        if self._entered == 0:
            super().__exit__(*error)

    def see(self, name: str, types: set[str]) -> None:
        """One operator is about to run on these types."""
        self.operators.setdefault(self.caller, set()).add(name)
        self.types.setdefault(self.caller, set()).update(types)

    @contextmanager
    def _again(self) -> Iterator[None]:
        """torch has left the mode while it is asked; what an operator is put together from is watched too."""
        TorchDispatchMode.__enter__(self)
        try:
            yield
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    @contextmanager
    def calling(self, caller: Any) -> Iterator[None]:
        """What runs inside was called by `caller`."""
        before, self.caller = self.caller, caller
        try:
            yield
        finally:
            self.caller = before

    def wrap(self, place: Place, op: str, function: Function) -> Function:
        """For `Bound`: calls of an operator count for (place, operator)."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            with self, self.calling((place, op)):
                return function(*args, **kwargs)

        return watched


class Emulation(Watch):
    """A target on this machine: what its manifest lacks raises, but where the map says that the host computes it."""

    def __init__(self, target: Target, mapped: MapOpsReport) -> None:
        super().__init__()
        self.target = target
        self._host = {((row.layer, row.place, row.phase), row.op) for row in mapped.sites if row.status == "host fallback"}
        self._between = {name for row in mapped.between if row.status == "host fallback" for name in row.lacking}

    def see(self, name: str, types: set[str]) -> None:
        super().see(name, types)
        if self.caller in self._host:
            return
        lacking = Uses(operators=frozenset((name,)), types=frozenset(types)).lacking(self.target)
        if self.caller == BETWEEN:
            lacking = [each for each in lacking if each not in self._between]
        if lacking:
            where = self.caller if self.caller == BETWEEN else f"{self.caller[1]} of {self.caller[0]}"
            hint = "the map does not know that it is used: `python -m tests.torch_operators`"
            raise Day0Error(f"{self.target.name} has no {lacking[0]}, called as aten::{name}", where, hint=hint)


def emulation(mapped: MapOpsReport) -> Emulation | None:
    """What a map asks for."""
    return Emulation(find_target(mapped.target), mapped) if mapped.emulated else None


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in arguments or results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)
