"""Looking over the shoulder of operators while an engine runs: where numbers break first, and what must hold in every call."""

from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from day0.engine.bind import Function, Place
from day0.spec.errors import Day0Error
from day0.spec.ops import Op
from day0.spec.registry import ops

MASKED = frozenset({"index_scores"})  # operators whose result is minus infinity where nothing may be read


@dataclass(frozen=True)
class Fault:
    """The first call whose result is not finite."""

    layer: int | None
    place: str
    phase: str
    op: str
    given: bool  # whether an argument was broken already: a weight, since every result before is finite


class FaultWatch:
    """Remembers the first operator call whose result is NaN or infinite; a wrap of bound functions."""

    def __init__(self) -> None:
        self.first: Fault | None = None

    def __call__(self, place: Place, op: str, function: Function) -> Function:
        def watched(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if self.first is None and any(broken(op, tensor) for tensor in tensors(result)):
                given = any(broken("", tensor) for value in (*args, *kwargs.values()) for tensor in tensors(value))
                self.first = Fault(*place, op, given)
            return result

        return watched


class Assertions:
    """Refuses the first call that breaks what every call must hold; a wrap of bound functions.

    Results are finite; they have as many tokens as the arguments, and the shape of an argument with the same axes; chosen experts exist,
    and their factors are not negative.
    """

    def __call__(self, place: Place, op: str, function: Function) -> Function:
        declared, names = ops().get(op), None

        def asserted(*args: Any, **kwargs: Any) -> Any:
            nonlocal names
            result = function(*args, **kwargs)
            names = names or list(signature(declared.reference).parameters)
            given = dict(zip(names, args, strict=False)) | kwargs
            wrong = _wrong(declared, given, result if isinstance(result, tuple) else (result,))
            if wrong:
                layer, where, phase = place
                at = " ".join(word for word in (f"layer {layer}" if layer is not None else "", where, phase) if word)
                raise Day0Error(f"{op} {wrong}", at, hint="`day0 replay` of the incident and `day0 validate` tell more")
            return result

        return asserted


def broken(op: str, tensor: Tensor) -> bool:
    """Whether a floating-point tensor holds NaN or infinity that `op` does not mean."""
    if not tensor.is_floating_point() or tensor.element_size() == 1:
        return False
    if op in MASKED:
        return bool((torch.isnan(tensor) | (tensor == float("inf"))).any())
    return not bool(torch.isfinite(tensor).all())


def tensors(value: Any) -> list[Tensor]:
    """Those in an argument or a result."""
    if isinstance(value, Tensor):
        return [value]
    return [one for one in value if isinstance(one, Tensor)] if isinstance(value, tuple | list) else []


def _wrong(op: Op, given: dict[str, Any], results: tuple[Any, ...]) -> str:
    shapes = {name.rpartition("_")[0]: value.shape for name, value in given.items() if isinstance(value, Tensor)}
    for (name, axes), result in zip(op.outputs.items(), results, strict=False):
        if not isinstance(result, Tensor):
            continue
        if broken(op.name, result):
            return f"returned {name} with NaN or infinity"
        alike = [shapes[one] for one, found in op.inputs.items() if one in shapes and found == axes]
        if alike and result.shape not in alike:
            return f"returned {name} of shape {list(result.shape)} for {list(alike[0])}"
        tokens = {shapes[one][0] for one, found in op.inputs.items() if one in shapes and found[0] == axes[0] == "T"}
        if tokens and len(result) not in tokens:
            return f"returned {name} of {len(result)} tokens for {max(tokens)}"
    return _wrong_choice(given, results) if op.name == "route" else ""


def _wrong_choice(given: dict[str, Any], results: tuple[Any, ...]) -> str:
    weights_TK, experts_TK = results
    count = next(iter(given.values())).shape[-1]
    if experts_TK.numel() and not (int(experts_TK.min()) >= 0 and int(experts_TK.max()) < count):
        return f"chose expert {int(experts_TK.max())} of {count}"
    return "gave an expert a negative factor" if bool((weights_TK < 0).any()) else ""


