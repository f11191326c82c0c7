"""torch's operators as they are called: who calls which, and a target that refuses those it lacks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from day0.engine.bind import Function, Place
from day0.spec.errors import Day0Error
from day0.spec.target import Target

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
        self.operators: dict[Any, set[str]] = {}
        self.types: dict[Any, set[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
        if composite and plain_name(func) != WHOLE:
            with self:
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

    def see(self, name: str, types: set[str]) -> None:
        """One operator is about to run on these types."""
        self.operators.setdefault(self.caller, set()).add(name)
        self.types.setdefault(self.caller, set()).update(types)

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
            with self.calling((place, op)):
                return function(*args, **kwargs)

        return watched


class Emulation(Watch):
    """A target on this machine: what its manifest lacks raises, but for calls that the map sends to the host."""

    def __init__(self, target: Target, on_host: Callable[[Any], bool]) -> None:
        super().__init__()
        self.target, self._on_host = target, on_host

    def see(self, name: str, types: set[str]) -> None:
        super().see(name, types)
        if self._on_host(self.caller):
            return
        lacking = [f"aten::{name}"] if self.target.line(name).has == "none" else []
        lacking += [dtype for dtype in sorted(types) if self.target.cast(dtype).has == "none"]
        if lacking:
            where = self.caller if isinstance(self.caller, str) else f"{self.caller[1]} of {self.caller[0]}"
            raise Day0Error(f"{self.target.name} has no {lacking[0]}, which aten::{name} needs", where, hint="`day0 map-ops` again")


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in arguments or results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)
