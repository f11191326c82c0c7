"""What the arguments of an operator call say: its axis sizes, the site it stands for, and the same numbers in float64."""

import re
from dataclasses import is_dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from day0.spec.ops import Op, Phase, Site
from day0.spec.packed import Packed
from day0.spec.step import Segment, Turn

SCALARS = {"top_k": "K", "v_dim": "V"}  # arguments that are the size of an axis


def is_array(value: Any) -> bool:
    """A tensor, what stands for one (packed weights, angles), several of them, or the absence of one."""
    return value is None or hasattr(value, "shape") or isinstance(value, Turn) or is_group(value)


def is_group(value: Any) -> bool:
    """Several weights with one input."""
    return hasattr(value, "members") or (isinstance(value, tuple) and all(isinstance(one, Tensor) for one in value))


def shape(value: Any) -> tuple[int, ...]:
    """Of a group: as if its members were one. Of angles: those of the dimensions that they turn."""
    if isinstance(value, Turn):
        return (value.cos_TA.shape[0], 2 * value.cos_TA.shape[1])
    if is_group(value):
        shapes = [tuple(one.shape) for one in value]
        return (sum(one[0] for one in shapes), *shapes[0][1:])
    return tuple(value.shape)


def letters(axes: str) -> list[str]:
    """The axes of "PS(C+R)" are P, S and C+R; only single letters can be looked up."""
    return [inner or letter for inner, letter in re.findall(r"\(([^)]*)\)|([A-Z])", axes)]


def bound(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Parameter → argument."""
    return dict(signature(op.reference).bind(*args, **kwargs).arguments)


def sizes(op: Op, arguments: dict[str, Any]) -> dict[str, int]:
    """Axis letter → elements, by the declared axes of the arguments; a length of 1 stands for any. AssertionError when two disagree.

    Pages and rings do not say how many tokens a sequence has.
    """
    arrays = [value for value in arguments.values() if is_array(value)]
    found = {SCALARS[name]: value for name, value in arguments.items() if name in SCALARS}
    for axes, value in zip(op.inputs.values(), arrays, strict=False):
        if value is None:
            continue
        names, elements = letters(axes), shape(value)
        assert len(elements) >= len(names), f"{axes} for {elements}"
        pool = {"P", "S"} if {"P", "B"} & set(names) else set()
        for letter, count in zip(names, elements[len(elements) - len(names) :], strict=True):
            if len(letter) == 1 and letter not in pool:
                known = found.get(letter, count)
                assert 1 in (known, count) or known == count, f"{op.name}: {letter} is {known} and {count}"
                found[letter] = max(known, count)
    return found


def site(op: Op, arguments: dict[str, Any], dtype: str, phase: Phase) -> Site:
    """The call as a kernel is asked about it: optional arrays count by whether they are there."""
    options: dict[str, Any] = {name: value for name, value in arguments.items() if not is_array(value) and not isinstance(value, Segment)}
    defaults = {name: parameter.default for name, parameter in signature(op.reference).parameters.items()}
    options |= {name: arguments.get(name) is not None for name, default in defaults.items() if default is None and name not in options}
    form = "+".join(sorted({value.format for value in arguments.values() if isinstance(value, Packed)})) or "plain"
    return Site(op=op.name, label="case", phase=phase, sizes=sizes(op, arguments), options=options, dtype=dtype, format=form)


def phases(arguments: dict[str, Any]) -> tuple[Phase, ...]:
    """Those that a call with these arguments can be in."""
    segment = next((value for value in arguments.values() if isinstance(value, Segment)), None)
    return ("prefill", "decode") if segment is None else (segment.phase,)


def mapped(value: Any, change: Any) -> Any:
    """`value` with `change` applied to every tensor in it."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple):
        return tuple(mapped(one, change) for one in value)
    if isinstance(value, Packed):
        return replace(value, parts=mapped(value.parts, change))
    if isinstance(value, Turn):
        return Turn(change(value.cos_TA), change(value.sin_TA))
    if isinstance(value, dict):
        return {name: mapped(one, change) for name, one in value.items()}
    if isinstance(value, Segment):
        return replace(value, shared={})
    return value


def widened(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same numbers in float64; packed weights decoded into it."""
    return mapped(unpacked(arguments, torch.float64), lambda x: x.double() if x.is_floating_point() else x)


def unpacked(arguments: dict[str, Any], dtype: Any = None) -> dict[str, Any]:
    """The same call with packed weights decoded, into their own compute type unless another is given: what references take."""
    return {name: _unpacked(value, dtype) for name, value in arguments.items()}


def _unpacked(value: Any, dtype: Any) -> Any:
    if hasattr(value, "members"):
        return tuple(_unpacked(one, dtype) for one in value)
    if not isinstance(value, Packed):
        return value
    if value.bank:
        return torch.stack([_unpacked(value.expert(e), dtype) for e in range(value.shape[0])])
    return value.decode(torch.empty(value.shape, dtype=dtype or value.dtype, device=value.parts["data"].device))


def tensors(value: Any) -> list[Tensor]:
    """Every tensor in `value`."""
    found: list[Tensor] = []
    mapped(value, found.append)
    if is_dataclass(value) and not isinstance(value, Turn | type):
        found += [one for one in vars(value).values() if isinstance(one, Tensor)]
    return found
