"""Operators on shadows that were called alike before: what they held and what they gave is known."""

from collections.abc import Callable
from typing import Any

from day0.engine.shadow.heap import Block, Heap
from day0.engine.shadow.tensor import Shadow


class Remembered:
    """A function that runs once for each shape of its arguments, unless it leaves something in one of them."""

    def __init__(self, function: Callable[..., Any], heap: Heap, fixed: tuple[type, ...] = ()) -> None:
        """`fixed`: types of arguments that are the same in every call."""
        self._function, self._heap, self._fixed = function, heap, fixed
        self._known: dict[Any, tuple[int, Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = self._key(args, kwargs)
        if None in key:
            return self._function(*args, **kwargs)
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Shadow)]
        heap = self._heap
        if key in self._known:
            held, made = self._known[key]
            heap.scratch(held)
            return repeated(made, given, {})
        live, before = heap.live, heap.peak
        heap.peak = live
        result = self._function(*args, **kwargs)
        if key == self._key(args, kwargs):
            self._known[key] = (heap.peak - live, described(result, given))
        heap.peak = max(before, heap.peak)
        return result

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        fixed = self._fixed
        return tuple([0 if isinstance(value, fixed) else signature(value) for value in args] + [(name, signature(kwargs[name])) for name in kwargs])


def signature(value: Any) -> Any:
    """What of an argument decides, and what is kept in it; None where that cannot be told."""
    if isinstance(value, Shadow):
        return (value.shape, value.strides, value.dtype.name, value.limit, value.values and tuple(value.values))
    if value is None or isinstance(value, int | float | str):
        return (type(value), value)
    if isinstance(value, tuple | list):
        inner = tuple(map(signature, value))
        return None if None in inner else inner
    told = TOLD.get(type(value).__name__)
    if told:
        return told(value)
    return ("record", value) if type(value).__module__.startswith(("day0.parts.", "day0.spec.activation")) else None


def of_state(state: Any) -> Any:
    """Of a layer's state: what its pools hold of each sequence or page, and how wide rings are."""
    return (tuple((name, pool.shape[1:]) for name, pool in state._pools.items()), state.source and of_state(state.source))


def of_segment(s: Any) -> Any:
    return (s.queries, s.lengths, s.runs, s.table_BP.shape, tuple(map(str, s.shared)), *(name in vars(s) for name in ("sequences_T",)))


TOLD: dict[str, Callable[[Any], Any]] = {
    "Group": lambda group: signature((*group.members, group.joined)),
    "_Bank": lambda bank: (bank._packed.format, bank._packed.shape, bank._packed.dtype.name),
    "Turn": lambda turn: (turn.cos_TA.shape, *vars(turn)),
    "Segment": of_segment,
    "Step": lambda step: (*(of_segment(segment) for segment in step.segments()), "tokens_T" in vars(step)),
    "LayerState": of_state,
}  # type of an argument → what decides


def described(result: Any, given: list[Shadow]) -> Any:
    """A result without its memory: whose it is, and how it lies there."""
    if isinstance(result, tuple | list):
        return type(result)(described(one, given) for one in result)
    if not isinstance(result, Shadow):
        return lambda *_: result
    source = next((number for number, one in enumerate(given) if one.block is result.block), None)
    looks = (result.shape, result.dtype, result.strides)
    size, block, offset, limit, values, kind = result.block.size, id(result.block), result.offset, result.limit, result.values, type(result)

    def again(given: list[Shadow], blocks: dict[int, Block]) -> Shadow:
        own = given[source].block if source is not None else blocks.get(block) or blocks.setdefault(block, Block(result_heap, size))
        made = kind(result_heap, *looks, own, offset)
        made.limit, made.values = limit, values
        return made

    result_heap = result.heap
    return again


def repeated(made: Any, given: list[Shadow], blocks: dict[int, Block]) -> Any:
    """The same result with memory of its own."""
    if isinstance(made, tuple | list):
        return type(made)(repeated(one, given, blocks) for one in made)
    return made(given, blocks)
