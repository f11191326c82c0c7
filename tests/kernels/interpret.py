"""One file of kernels in Triton's interpreter, against the reference in float64. Runs in a process of its own, which `start` prepares."""

import importlib.util
import os
from pathlib import Path
from typing import Any

Faults = dict[str, str]  # case and type → what is wrong


def start() -> None:
    """Once in a process, before Triton is imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)  # fills `torch.empty` with NaN
    from tests.kernels import faithful

    faithful.install()


def check(file: str, dtype: str, every: bool = False) -> tuple[int, Faults]:
    """How many cases ran, and which were wrong. `file` is one of kernels/, or a path."""
    from tests.kernels import calls

    impl, ran, wrong = load(file), 0, {}
    for op, case, made in calls.interpreted(impl, dtype, every):
        given = calls.apart(op, made) if ran % 2 == 0 else made
        fault = wrong_with(impl, op, made, given)
        ran += 1
        if fault:
            wrong[f"{case.name} {dtype}"] = fault
    return ran, wrong


def wrong_with(impl: Any, op: Any, made: dict[str, Any], given: dict[str, Any]) -> str | None:
    """What is wrong with one call; None when nothing is. `given` holds what `made` holds, wherever it lies."""
    from triton.runtime.errors import InterpreterError

    from day0.engine.arguments import unpacked, widened
    from day0.engine.gate import judge, mistyped

    try:
        found = results(impl.fn(**given))
    except InterpreterError as error:
        return str(error)
    wrong = mistyped(op, found, results(op.reference(**unpacked(made)))) or judge(op, found, results(op.reference(**widened(made))))
    return wrong or (None if same(given, made) else "an argument changed")


def results(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def same(given: dict[str, Any], made: dict[str, Any]) -> bool:
    """Whether every tensor still holds what it was given; what a segment has worked out since then comes after those."""
    import torch

    from day0.engine.arguments import tensors

    pairs = ((one, other) for name in made for one, other in zip(tensors(given[name]), tensors(made[name]), strict=False))
    return all(torch.equal(*(x.contiguous().flatten().view(torch.uint8) for x in pair)) for pair in pairs)


def load(file: str) -> Any:
    """The implementation that a file exports."""
    from day0.spec.registry import kernels

    if not file.endswith(".py"):
        return kernels().get(file)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.IMPL
