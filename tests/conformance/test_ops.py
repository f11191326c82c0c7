"""Every operator on all of its cases: declared shapes, and every implementation against the reference in float64 on the same numbers."""

import sys
from collections.abc import Callable, Iterator
from inspect import signature
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from day0.engine.arguments import is_array, letters, mapped, phases, site, sizes, tensors, unpacked, widened
from day0.engine.gate import judge, mistyped
from day0.kernels.c.build import lacking
from day0.spec.axes import AXES
from day0.spec.lazy import wide
from day0.spec.machine import Machine
from day0.spec.ops import Budget, Case, Op
from day0.spec.registry import backends, kernels, ops
from day0.spec.state import PAGED

OPS = dict(ops().items())
IMPLS = dict(kernels().items())
HERE = {name: impl for name, impl in IMPLS.items() if impl.provider in backends().get("cpu").providers}  # others: tests/kernels
DTYPES = ("float64", "float32", "bfloat16")


def results(value: Any) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.fixture(scope="module")
def machine() -> Machine:
    found = backends().get("cpu").probe()
    assert found
    return found


def arguments(op: Op, case: Case, dtype: str) -> dict[str, Any]:
    """In the order of the reference's parameters."""
    made = case.make(dtype)
    return {name: made[name] for name in signature(op.reference).parameters if name in made}


@pytest.mark.parametrize("name", OPS)
def test_declaration(name: str) -> None:
    op = OPS[name]
    assert op.name == name
    assert set("".join((*op.inputs.values(), *op.outputs.values()))) <= {*AXES, *"()+-1"}
    names = [case.name for case in op.cases()]
    assert names and len(set(names)) == len(names)
    assert op.budget.exact or (op.budget.relative("float32") > 0 and op.budget != Budget(rounds=0))


@pytest.mark.parametrize("name", OPS)
def test_cases_hold_awkward_sizes(name: str) -> None:
    """One token alone and an odd number of them; a width that no vector of 16 divides."""
    found = [sizes(OPS[name], arguments(OPS[name], case, "float32")) for case in OPS[name].cases()]
    assert any(one.get("T") == 1 for one in found) and any(one.get("T", 0) > 1 for one in found)
    widths = [count for one in found for axis, count in one.items() if axis not in "TSBPKGHNJM"]
    assert not widths or any(count % 16 for count in widths)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_have_the_declared_axes(name: str, dtype: str) -> None:
    op = OPS[name]
    for case in op.cases():
        made = arguments(op, case, dtype)
        found = results(op.reference(**unpacked(made)))
        assert len(found) == len(op.outputs), case.name
        size = sizes(op, made)
        for result, axes in zip(found, op.outputs.values(), strict=True):
            assert result.dim() == len(letters(axes)), case.name
            for letter, count in zip(letters(axes), result.shape, strict=True):
                allowed = {size.get(letter, count)} | ({min(size["K"], size["S"])} if letter == "K" and "S" in size else set())
                assert count in allowed, f"{case.name}: {letter}"
            assert not result.isnan().any() and not (result == float("inf")).any(), case.name
        assert same_type(op, made, found), case.name


def same_type(op: Op, made: dict[str, Any], found: tuple[Tensor, ...]) -> bool:
    """The first floating argument decides the type of a result that takes its place; what is kept or chosen by may stay wide."""
    given = next(value for value in made.values() if isinstance(value, Tensor) and value.is_floating_point())
    floating = [result for result in found if result.is_floating_point()]
    return all(result.dtype in (given.dtype, wide(given).dtype) for result in floating)


Function = Callable[..., Any]


def op_of(function: str) -> Op:
    return OPS[IMPLS[function].op if function in IMPLS else function]


def accepted(function: str, dtype: str, machine: Machine) -> Iterator[tuple[Op, Function, Case, dict[str, Any]]]:
    """Cases that an implementation does not refuse; all of them for a reference."""
    op = op_of(function)
    call = IMPLS[function].fn if function in IMPLS else op.reference
    for case in op.cases():
        made = arguments(op, case, dtype)
        made = widened(made) if dtype == "float64" else made if function in IMPLS else unpacked(made)
        asked = (site(op, made, dtype, phase) for phase in phases(made))
        if function not in IMPLS or any(IMPLS[function].refuses(one, machine) is None for one in asked):
            yield op, call, case, made


@pytest.mark.parametrize("function", [*OPS, *HERE])
@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_the_reference_in_float64(function: str, dtype: str, machine: Machine) -> None:
    wrong, seen = {}, 0
    for op, call, case, made in accepted(function, dtype, machine):
        seen += 1
        fault = judge(op, results(call(**made)), results(op.reference(**widened(made))))
        if fault:
            wrong[case.name] = fault
    if not seen:
        pytest.skip(f"{function} refuses every case in {dtype} here")
    assert wrong == {}


PORTIONED = [name for name, impl in HERE.items() if hasattr(sys.modules[impl.fn.__module__], "ELEMENTS")]


@pytest.mark.parametrize("function", PORTIONED)
@pytest.mark.parametrize("elements", [1, 3000])
def test_portions_are_the_whole(function: str, elements: int, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that bound what they hold at once, made to take a token at a time, and some whose last portion is a smaller one."""
    monkeypatch.setattr(sys.modules[IMPLS[function].fn.__module__], "ELEMENTS", elements)
    for op, call, case, made in accepted(function, "float32", machine):
        assert judge(op, results(call(**made)), results(op.reference(**widened(made)))) is None, case.name


@pytest.mark.parametrize("function", HERE)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_have_the_types_of_the_reference(function: str, dtype: str, machine: Machine) -> None:
    """What comes next is chosen without a look at who came before: nobody may hand on another type than the operator's meaning does."""
    for op, call, case, made in islice(accepted(function, dtype, machine), 1):
        found, right = results(call(**made)), results(op.reference(**unpacked(made)))
        assert mistyped(op, found, right) is None, case.name


def test_every_implementation_runs_somewhere(machine: Machine) -> None:
    """Kernels in C where there is a compiler."""
    mine = [name for name, impl in HERE.items() if impl.provider != "c" or lacking(machine) is None]
    assert mine
    assert [name for name in mine if not any(True for dtype in DTYPES for _ in accepted(name, dtype, machine))] == []


@pytest.mark.parametrize("function", [*OPS, *HERE])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_arguments_stay_as_they_are(function: str, dtype: str, machine: Machine) -> None:
    for _, call, case, made in accepted(function, dtype, machine):
        given = [one for value in made.values() for one in tensors(value)]
        before = [one.clone() for one in given]
        found = results(call(**made))
        assert all(torch.equal(one, other) for one, other in zip(given, before, strict=True)), f"{case.name}: an argument changed"
        places = {one.untyped_storage().data_ptr() for one in given}
        assert not any(result.untyped_storage().data_ptr() in places for result in found), f"{case.name}: a result is an argument"


@pytest.mark.parametrize("function", [one for one in (*OPS, *HERE) if any("pages" in name for name in op_of(one).inputs)])
def test_the_rest_of_the_state_is_not_read(function: str, machine: Machine) -> None:
    """What pages hold beyond a sequence, in other sequences and in free pages, may be anything: here it is NaN."""
    seen = 0
    for _, call, case, made in accepted(function, "float32", machine):
        segment = made["segment"]
        seen += 1
        right, start = call(**made), 0
        for b, count in enumerate(segment.queries):
            found = call(**{name: alone(name, value, made, b) for name, value in mapped(made, lambda x: x).items()})
            torch.testing.assert_close(found[start : start + count], right[start : start + count], msg=f"{case.name}, sequence {b}")
            start += count
    if not seen:
        pytest.skip(f"{function} refuses every case here")


def alone(name: str, value: Any, made: dict[str, Any], b: int) -> Any:
    """Pages (rings, where there is a window) with nothing but the entries of sequence `b`."""
    if "pages" not in name:
        return value
    numbers = torch.arange(value.shape[0] * value.shape[1]).view(value.shape[:2])
    kept = torch.zeros(numbers.numel(), dtype=torch.bool)
    window = made.get("window")
    kept[made["segment"].entries(numbers, b, PAGED if window is None else ("window", 1, window))] = True
    return value.masked_fill(~kept.view(*numbers.shape, *[1] * (value.dim() - 2)), float("nan"))


@pytest.mark.parametrize("name", IMPLS)
def test_implementations_are_declared(name: str) -> None:
    """They take what the reference takes, under the same names."""
    impl = IMPLS[name]
    assert impl.op in OPS
    assert name.startswith(impl.op) and name.endswith(impl.provider)
    assert impl.status in ("native", "fused", "compiled", "composite")
    assert [*signature(impl.fn).parameters] == [*signature(OPS[impl.op].reference).parameters]
    assert any(impl.provider in backend.providers for _, backend in backends().items())


@pytest.mark.parametrize("name", OPS)
def test_more_costs_more(name: str) -> None:
    """Twice the tokens, at least as much work and traffic; none of it negative or infinite."""
    op = OPS[name]
    for case in op.cases():
        made = arguments(op, case, "float32")
        few = site(op, made, "float32", "prefill")
        axes = dict.fromkeys(AXES, 4) | {"S": 100} | dict(few.sizes)
        one, two = (op.cost(type(few)(**{**vars(few), "sizes": {**axes, "T": tokens}})) for tokens in (3, 6))
        assert 0 <= one.flops <= two.flops < float("inf") and 0 < one.bytes <= two.bytes < float("inf"), case.name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_memory_is_poisoned(dtype: torch.dtype) -> None:
    """So that an element which nobody writes shows: also one in a buffer of bytes, as the engine allocates them."""
    assert torch.empty(9, dtype=dtype).isnan().all()
    assert torch.empty(72, dtype=torch.uint8).view(dtype).isnan().all()


def test_what_is_an_array() -> None:
    """The reading of arguments that all of this rests on."""
    assert is_array(None) and is_array(torch.zeros(1)) and is_array((torch.zeros(1), torch.zeros(2)))
    assert not is_array(1.5) and not is_array("silu") and letters("PS(C+R)") == ["P", "S", "C+R"]
