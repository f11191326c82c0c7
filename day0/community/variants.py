"""What is different about a wrong call: the one usual change of its arguments that gives what passes through the reference.

Where the call's own arguments give it, the implementation is wrong, and the change that gives its result is looked for instead.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from day0.community.passing import Passing, differing, sums
from day0.community.wide import widened
from day0.engine.packed import Packed
from day0.engine.probe import Call
from day0.spec.activation import Activation, Kind
from day0.spec.registry import ops

Arguments = dict[str, Any]
Variant = tuple[str, Callable[[Arguments], Arguments]]
ROWS, HELD = 4, 1 << 28  # wrong tokens that are computed again, at the most; elements of experts in memory
MOST = 40  # numbers that are tried for one field
KNOWN = (0.0, 1.0, 1.702, 7.0)  # numbers that activations have in releases, beside those of the configuration


def explain(call: Call, result: Tensor, wrong_T: Tensor, passing: Passing, numbers: Iterable[float]) -> str:
    """"right with limit 7", "as if biases of down were not weighted"; "" where nothing explains it. `numbers`: of the configuration."""
    reference = ops().get(call.op).reference
    arguments = dict(inspect.signature(reference).bind(*call.args, **call.kwargs).arguments)
    rows = wrong_T.nonzero().flatten()[: _count(arguments)]
    wide = {name: _rows(name, _Read(value) if _bank(value) else widened(value, torch.float32), rows) for name, value in arguments.items()}
    tried = list(_variants(wide, numbers))
    if not tried or len(wrong_T) != passing.tokens:
        return ""
    right = passing.narrowed(rows)
    if right.find(sums(reference(**wide))) is not None:
        return next((f"right with {name}" for name, change in tried if right.find(sums(reference(**change(wide)))) is None), "")
    mine = sums(result[rows])
    made = ((name, sums(_computed(reference, change(wide)))) for name, change in tried)
    return next((f"computed with {name}" for name, found in made if not differing(mine, found).any()), "")


def alternatives(call: Call) -> Iterator[tuple[str, Tensor]]:
    """(name, result) of a call after each change that is worth trying, in float32."""
    reference = ops().get(call.op).reference
    arguments = inspect.signature(reference).bind(*call.args, **call.kwargs).arguments
    wide = {name: widened(value, torch.float32) for name, value in arguments.items()}
    return ((name, reference(**change(wide))) for name, change in _variants(wide, ()))


def _computed(reference: Callable[..., Any], arguments: Arguments) -> Tensor:
    """The reference's result, with what it does not have added."""
    extra = arguments.pop("added", None)
    result: Tensor = reference(**arguments)
    return result if extra is None else result + extra


def _bank(value: Any) -> bool:
    return isinstance(value, Tensor | Packed) and len(value.shape) == 3


def _count(arguments: Arguments) -> int:
    """Tokens whose experts can be held in float32 at once."""
    expert = sum(prod(value.shape[1:]) for value in arguments.values() if _bank(value))
    chosen = max((value.shape[-1] for name, value in arguments.items() if name.startswith("experts_")), default=1)
    return max(1, min(ROWS, HELD // max(1, expert * chosen)))


class _Read:
    """A bank whose experts are decoded once, when they are asked for."""

    def __init__(self, bank: Any) -> None:
        self._bank, self._read, self.shape = bank, dict[int, Tensor](), bank.shape

    def __getitem__(self, e: int) -> Tensor:
        if e not in self._read:
            self._read[e] = widened(self._bank.expert(e) if isinstance(self._bank, Packed) else self._bank[e], torch.float32)
        return self._read[e]


def _rows(name: str, value: Any, rows: Tensor) -> Any:
    """An argument of a few tokens alone."""
    return value[rows] if isinstance(value, Tensor) and (name == "x" or name.rpartition("_")[2].startswith("T")) else value


def _variants(arguments: Arguments, numbers: Iterable[float]) -> Iterator[Variant]:
    """Changes that are worth trying."""
    if arguments.get("weight_D") is not None and "plus_one" in arguments:
        yield from _gains(arguments["plus_one"])
    name = next((name for name, value in arguments.items() if isinstance(value, Activation)), None)
    if name is None:
        return
    for text, other in _activations(arguments[name], list(numbers)):
        yield text, lambda given, other=other: given | {name: other}  # type: ignore[misc]
    gate, up = (next((n for n in arguments if n.startswith(f"{half}_")), "") for half in ("gate", "up"))
    if gate and up and arguments[gate] is not None:
        yield "gate and up exchanged", lambda given: _exchanged(given, gate, up)
        if "biases" in arguments:
            yield "rows of gate and up in turns", lambda given: _dealt(given, gate, up, _in_turns)
            yield "rows of gate and up side by side", lambda given: _dealt(given, gate, up, _side_by_side)
    yield from _turns(arguments, gate, up)
    if arguments.get("biases") is not None:
        yield "biases of down not weighted", _unweighted
        yield "no biases of down", lambda given: given | {"biases": (*given["biases"][:2], given["biases"][2] * 0)}


def _gains(plus_one: bool) -> Iterator[Variant]:
    """Other readings of a norm's weight."""
    yield "the weight alone" if plus_one else "one added to the weight", lambda given: given | {"plus_one": not plus_one}
    yield "one added twice" if plus_one else "one taken from the weight", lambda given: given | {"weight_D": given["weight_D"] + (2 * plus_one - 1)}


def _activations(own: Activation, numbers: list[float]) -> Iterator[tuple[str, Activation]]:
    """The activation with one field changed."""
    if own.limit is not None:
        yield "no limit", replace(own, limit=None)
        yield f"the gate limited {'before' if own.limit_after else 'after'} the function", replace(own, limit_after=not own.limit_after)
    tried = list(dict.fromkeys([*KNOWN, *numbers]))[:MOST]
    for field in ("limit", "alpha", "offset", "beta", "linear_beta"):
        for number in tried:
            if number != getattr(own, field) and (number > 0 or field == "offset"):
                changed: dict[str, Any] = {field: number}
                yield f"{field} {number:g}", replace(own, **changed)
    kinds: tuple[Kind, ...] = ("silu", "gelu", "gelu_tanh")
    for kind in kinds:
        if kind != own.kind:
            yield kind, replace(own, kind=kind)


def _turns(arguments: Arguments, gate: str, up: str) -> Iterator[Variant]:
    """Banks whose matrices are square as they are stored: their shape does not tell inputs from outputs."""
    down = next((name for name in arguments if name.startswith("down_")), "")
    if down and len(shape := arguments[down].shape) == 3 and shape[1] == shape[2]:
        yield "down transposed", lambda given: given | {down: _Dealt(given[down], given[down], lambda one, other: (one.T, other.T), 0)}
    if gate and up and arguments[gate] is not None and len(shape := arguments[gate].shape) == 3 and shape[2] == 2 * shape[1]:
        for text, deal in (("gate and up transposed", _turned), ("gate and up transposed, their rows in turns", _turned_in_turns)):
            yield text, lambda given, deal=deal: given | {  # type: ignore[misc]
                name: _Dealt(given[gate], given[up], deal, half) for half, name in enumerate((gate, up))
            }


def _exchanged(given: Arguments, gate: str, up: str) -> Arguments:
    changed = given | {gate: given[up], up: given[gate]}
    biases = given.get("biases")
    return changed if biases is None else changed | {"biases": (biases[1], biases[0], biases[2])}


def _unweighted(given: Arguments) -> Arguments:
    """Down's bias once for each chosen expert."""
    experts_TK = next(value for name, value in given.items() if name.startswith("experts"))
    gate, up, down = given["biases"]
    return given | {"biases": (gate, up, down * 0), "added": down[experts_TK].sum(1)}


Deal = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _in_turns(gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Halves, where they were taken side by side."""
    joined = torch.cat((gate, up), 0)
    return joined[0::2], joined[1::2]


def _side_by_side(gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Halves, where they were taken in turns."""
    joined = torch.stack((gate, up), 1).flatten(0, 1)
    return joined[: len(gate)], joined[len(gate) :]


def _turned(gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Halves of one square matrix, transposed."""
    joined = torch.cat((gate, up), 0).T
    return joined[: len(gate)], joined[len(gate) :]


def _turned_in_turns(gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """The same, where rows of both take turns."""
    joined = torch.stack((gate, up), 1).flatten(0, 1).T
    return joined[0::2], joined[1::2]


def _dealt(given: Arguments, gate: str, up: str, deal: Deal) -> Arguments:
    changed = given | {gate: _Dealt(given[gate], given[up], deal, 0), up: _Dealt(given[gate], given[up], deal, 1)}
    biases = given.get("biases")
    if biases is None or biases[0] is None:
        return changed
    dealt = (_Dealt(biases[0], biases[1], deal, half) for half in (0, 1))
    return changed | {"biases": (*dealt, biases[2])}


class _Dealt:
    """A bank whose rows are dealt out anew between gate and up, one expert at a time."""

    def __init__(self, gate: Any, up: Any, deal: Deal, half: int) -> None:
        self._gate, self._up, self._deal, self._half = gate, up, deal, half

    def __getitem__(self, e: int) -> Tensor:
        return self._deal(self._gate[e], self._up[e])[self._half]
