"""Calls of Triton kernels: on the cases of their operators, and at the sizes that are compiled ahead of time (`BUILDS` of their files)."""

import importlib
import zlib
from collections.abc import Callable, Iterator
from inspect import signature
from math import prod
from typing import Any

from day0.engine.arguments import is_array, mapped, phases, site
from day0.spec.build import Build
from day0.spec.cases import Draw
from day0.spec.lazy import torch
from day0.spec.machine import Card, Machine
from day0.spec.ops import Case, Impl, Op
from day0.spec.registry import kernels, ops
from tests.kernels import packed

GAP = 8  # elements between rows that lie apart
MOST = {"bfloat16": 4, "float16": 1, "float32": 1}  # cases of each type that are interpreted, unless all are asked for
FILES = sorted(name for name, impl in kernels().items() if impl.provider == "triton")


class Shapes(Draw):
    """Tensors without numbers."""

    def normal(self, *shape: int, scale: float = 1.0, dtype: Any = None) -> Any:
        return torch.empty(*shape, dtype=dtype or self.dtype, device="meta")


def machine(arch: str = "sm_90") -> Machine:
    """One of that architecture, with a Triton of its own."""
    backend = "rocm" if arch.startswith("gfx") else "cuda"
    return Machine(name="machine", backend=backend, card=Card(name="card", memory=1 << 37, arch=arch))


def arguments(op: Op, case: Case, dtype: str, draw: type[Draw] = Draw) -> dict[str, Any]:
    """In the order of the reference's parameters."""
    made = case.make(dtype, draw)
    return {name: made[name] for name in signature(op.reference).parameters if name in made}


def accepts(impl: Impl, op: Op, made: dict[str, Any], dtype: str, on: Machine) -> bool:
    """Whether an implementation takes a call, in any phase that the arguments may be of."""
    return any(impl.refuses(site(op, made, dtype, phase), on) is None for phase in phases(made))


def chosen(every: list[Case], most: int) -> list[Case]:
    """Cases in which each value of each axis is met, in no order that an axis follows; more of them up to `most`. One alone is any of them."""
    shuffled = sorted(every, key=lambda case: zlib.crc32(case.name.encode()))
    seen: set[str] = set()
    needed = []
    for case in shuffled:
        if not {*case.name.split("-")} <= seen:
            needed.append(case)
            seen |= {*case.name.split("-")}
    ordered = [*needed, *(case for case in shuffled if case not in needed)]
    return ordered[: max(most, len(needed)) if most > 1 else 1]


def interpreted(impl: Impl, dtype: str, every: bool = False) -> Iterator[tuple[Op, Case, dict[str, Any]]]:
    """What an implementation is interpreted on."""
    op, on = ops().get(impl.op), machine()
    plain, beside = ([case for case in some if accepts(impl, op, arguments(op, case, dtype), dtype, on)] for some in (op.cases(), packed.cases(op)))
    for case in [*(plain if every else chosen(plain, MOST[dtype])), *beside]:
        yield op, case, arguments(op, case, dtype)


def apart(op: Op, made: dict[str, Any]) -> dict[str, Any]:
    """The same arguments, with NaN between the rows of tokens, as they lie where they are columns of a wider tensor."""
    axes = dict(zip((name for name, value in made.items() if is_array(value)), op.inputs.values(), strict=False))

    def place(x: Any) -> Any:
        if x.dim() < 2 or not x.is_floating_point():
            return x.clone()
        row = prod(x.shape[1:])
        return torch.full((len(x), row + GAP), float("nan"), dtype=x.dtype)[:, :row].view(x.shape).copy_(x)

    def change(name: str) -> Callable[[Any], Any]:
        return place if axes.get(name, "").startswith("T") else lambda x: x.clone()

    return {name: mapped(value, change(name)) for name, value in made.items()}


def builds(file: str) -> Iterator[tuple[Impl, Build, Op, Case]]:
    """Every build of one file, as a case of its operator."""
    impl = kernels().get(file)
    op = ops().get(impl.op)
    for build in importlib.import_module(f"day0.kernels.{file}").BUILDS:
        case = op.cases.at(**build.sizes)  # type: ignore[attr-defined]
        yield impl, build, op, case if build.format == "plain" else packed.case(op, case, build.format)


def on_device(op: Op, case: Case, build: Build, device: Any) -> dict[str, Any]:
    """Arguments of a build, on a device; on "meta", without numbers and without memory for them."""
    draw = Shapes if str(device) == "meta" else Draw
    moved: dict[str, Any] = mapped(arguments(op, case, build.dtype, draw), lambda x: x.to(device))
    return moved
