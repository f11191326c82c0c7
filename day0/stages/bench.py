"""`day0 bench`: times of every implementation of an operator, each only after it was found right on all cases of the operator.

Exit codes of the command: 0 every implementation is right; 1 one is wrong, and has no time; 2 there is nothing to time.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

import torch

from day0.engine.arguments import phases, site, unpacked, widened
from day0.engine.gate import judge, mistyped
from day0.spec.errors import Day0Error
from day0.spec.machine import Machine
from day0.spec.ops import Case, Op
from day0.spec.record import record
from day0.spec.registry import kernels, ops
from day0.spec.reports.map_ops import SiteRow
from day0.stages.machines import find_machine

RUNS, LEAST = 5, 0.02  # measurements, and seconds that one lasts at the least
Sizes = tuple[tuple[str, int], ...]  # (axis, elements)


@record
class Timing:
    """One implementation on one case."""

    name: str  # kernel file, or "reference"
    case: str  # sizes
    wrong: str | None  # what a gate found; then there is no time
    refused: str | None  # why it does not take the case; then there is no time
    seconds: float | None  # median of a call


def bench(name: str, dtype: str, sizes: list[Sizes]) -> Iterator[Timing]:
    """Each implementation on the largest of the operator's cases, or on cases of given sizes."""
    op: Op = ops().get(name)
    machine = find_machine("cpu")
    chosen = [op.cases.at(**dict(one)) for one in sizes] or [largest(op, dtype)]  # type: ignore[attr-defined]
    for function, impl in [*((file, impl) for file, impl in kernels().items() if impl.op == name), ("reference", None)]:
        call = impl.fn if impl else decoding(op)
        accepts = refusal(impl, op, dtype, machine)
        wrong = gate(op, call, dtype, accepts)
        for case in chosen:
            made = arguments(op, case, dtype)
            refused, mistake = accepts(made), wrong
            if refused is None and mistake is None and sizes:
                mistake = checked(op, call, case, dtype)
            time_it = refused is None and mistake is None
            yield Timing(name=function, case=case.name, wrong=mistake, refused=refused, seconds=timed(call, made) if time_it else None)


def decoding(op: Op) -> Callable[..., Any]:
    """The reference, packed weights decoded before."""
    return lambda **made: op.reference(**unpacked(made))


def refusal(impl: Any, op: Op, dtype: str, machine: Machine) -> Callable[[Mapping[str, Any]], str | None]:
    """Asks an implementation about arguments; the reference takes all."""

    def ask(made: Mapping[str, Any]) -> str | None:
        if impl is None:
            return None
        reasons = [impl.refuses(site(op, dict(made), dtype, phase), machine) for phase in phases(dict(made))]
        return reasons[0] if all(reasons) else None

    return ask


def gate(op: Op, call: Callable[..., Any], dtype: str, accepts: Callable[[Mapping[str, Any]], str | None]) -> str | None:
    """The first case that an implementation takes and gets wrong, and how; None when it is right on all."""
    for case in op.cases():
        if accepts(arguments(op, case, dtype)) is None and (wrong := checked(op, call, case, dtype)):
            return f"{case.name}: {wrong}"
    return None


def checked(op: Op, call: Callable[..., Any], case: Case, dtype: str) -> str | None:
    """What is wrong with one result."""
    made = arguments(op, case, dtype)
    found = results(call(**made))
    return mistyped(op, found, results(decoding(op)(**made))) or judge(op, found, results(op.reference(**widened(made))))


def arguments(op: Op, case: Case, dtype: str) -> dict[str, Any]:
    """In the order of the reference's parameters."""
    made = case.make(dtype)
    return {name: made[name] for name in signature(op.reference).parameters if name in made}


def results(value: Any) -> tuple[torch.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def largest(op: Op, dtype: str) -> Case:
    """The case with the most numbers in it."""

    def elements(case: Case) -> int:
        return sum(value.numel() for value in case.make(dtype).values() if isinstance(value, torch.Tensor))

    return max(op.cases(), key=elements)


@torch.inference_mode()
def timed(call: Callable[..., Any], made: dict[str, Any]) -> float:
    """Median seconds of a call, of several runs that each last long enough to be measured."""
    start = time.perf_counter()
    call(**made)
    repeats = max(1, int(LEAST / max(1e-7, time.perf_counter() - start)))
    runs = []
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(repeats):
            call(**made)
        runs.append((time.perf_counter() - start) / repeats)
    return statistics.median(runs)


def sizes_of(op: str, rows: list[SiteRow]) -> list[Sizes]:
    """Sizes of a map's calls of an operator, as far as its cases have these axes; each once, the largest share first."""
    axes = set(ops().get(op).cases.axes)
    worth: dict[Sizes, float] = {}
    for row in rows:
        if row.op == op:
            sizes = tuple((axis, size) for axis, size in sorted(row.sizes.items()) if axis in axes)
            worth[sizes] = worth.get(sizes, 0.0) + row.share
    if not worth:
        raise Day0Error(f"the map has no call of {op}", hint=f"operators: {', '.join(sorted({row.op for row in rows}))}")
    return sorted(worth, key=lambda sizes: -worth[sizes])
