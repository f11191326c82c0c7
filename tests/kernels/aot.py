"""Compiles the launches of every build for every target, without a device: what the launch code asks for is what is compiled.

Arguments are tensors without numbers; a launch is recorded instead of made, and its types, sizes and constants are specialised by Triton's
rules (whole numbers that are 1 or divisible by 16, aligned pointers).
"""

import inspect
import os
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch

from day0.engine.arguments import phases, site
from day0.spec import tuning
from day0.spec.build import TARGETS, Build
from day0.spec.lazy import Kernel
from day0.spec.ops import Case, Impl, Op
from tests.kernels import calls
from tests.kernels.listing import Figures, figures

TYPES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64", "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "float8_e4m3fn": "fp8e4nv", "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5",
}  # fmt: skip
Launch = tuple[Kernel, tuple[Any, ...], dict[str, Any]]


class Row(NamedTuple):
    """One kernel of one build."""

    build: Build
    kernel: str  # the function's name
    targets: dict[str, Figures | str]  # architecture → figures, or why it is not launched there


def start() -> None:
    """Once in a process: what was compiled is kept in a folder of this user, by Triton's own key."""
    torch.set_num_threads(1)
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"day0-triton-{os.getuid()}"))


def compiled(file: str, targets: tuple[str, ...] = TARGETS, most: int | None = None) -> list[Row]:
    """Figures of the builds of a file of kernels, of the first `most` of them."""
    rows = []
    for impl, build, op, case in islice(calls.builds(file), most):
        refused = {arch: refusal(impl, build, op, case, arch) for arch in targets}
        found = {arch: figures_of(impl, build, op, case, arch) for arch, reason in refused.items() if reason is None}
        for kernel in dict.fromkeys(name for one in found.values() for name in one):
            rows.append(Row(build, kernel, {arch: reason or found[arch].get(kernel, "not launched") for arch, reason in refused.items()}))
    return rows


def refusal(impl: Impl, build: Build, op: Op, case: Case, arch: str) -> str | None:
    """Why a build is not for an architecture; None when it is."""
    made = calls.arguments(op, case, build.dtype, calls.Shapes)
    reasons = [
        impl.refuses(replace(site(op, made, build.dtype, phase), format=build.format), calls.machine(arch)) for phase in phases(made)
    ]
    return reasons[0] if all(reasons) else None


def figures_of(impl: Impl, build: Build, op: Op, case: Case, arch: str) -> dict[str, Figures]:
    """By the names of the kernels that a build launches; further launches of one that give other code are numbered."""
    found: dict[str, Figures] = {}
    for kernel, args, kwargs in launches(impl, build, op, case, arch):
        name, one = kernel.fn.__name__, figures(compile_one(kernel, args, kwargs, arch))
        same = [known for known in found if known.partition(" ")[0] == name]
        if one not in [found[known] for known in same]:
            found[f"{name} {len(same) + 1}" if same else name] = one
    return found


def launches(impl: Impl, build: Build, op: Op, case: Case, arch: str) -> list[Launch]:
    """What a build launches on a device of that architecture."""
    recorded: list[Launch] = []

    def record(kernel: Kernel, grid: Any) -> Any:
        return lambda *args, **kwargs: recorded.append((kernel, args, kwargs))

    with mock.patch.object(Kernel, "__getitem__", record), mock.patch.object(tuning, "architecture", return_value=arch):
        impl.fn(**calls.on_device(op, case, build, "meta"))
    return recorded


def compile_one(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], arch: str) -> Any:
    """What Triton makes of one launch."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function, names = kernel.compiled, inspect.signature(kernel.fn).parameters
    given = inspect.signature(kernel.fn).bind(*args, **{name: value for name, value in kwargs.items() if name in names})
    signature, constants, hints = {}, {}, {}
    for place, parameter in enumerate(function.params):
        value = given.arguments.get(parameter.name, parameter.default)
        several = isinstance(value, tuple) and not parameter.is_constexpr
        kinds = []
        for path, one in [((place, part), one) for part, one in enumerate(value)] if several else [((place,), value)]:
            kind, hint = ("constexpr", False) if parameter.is_constexpr else specialised(one)
            kinds.append(kind)
            if kind == "constexpr":
                constants[path] = one
            if hint:
                hints[path] = [["tt.divisibility", 16]]
        signature[parameter.name] = tuple(kinds) if several else kinds[0]
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=hints)
    target = GPUTarget("hip", arch, 64) if arch.startswith("gfx") else GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    return triton.compile(source, target=target, options={name: value for name, value in kwargs.items() if name not in names})


def specialised(value: Any) -> tuple[str, bool]:
    """Triton's type of an argument, and whether 16 divides it (of a tensor: its address)."""
    if isinstance(value, torch.Tensor):
        offset = value.storage_offset() * value.element_size()
        return f"*{TYPES[str(value.dtype).removeprefix('torch.')]}", offset % 16 == 0
    if value is None or (isinstance(value, int) and value == 1 and not isinstance(value, bool)):
        return "constexpr", False
    if isinstance(value, bool):
        return "i1", False
    if isinstance(value, float):
        return "fp32", False
    assert isinstance(value, int), f"a launch was given {type(value).__name__}"
    return "i32" if -(2**31) <= value < 2**31 else "i64", value % 16 == 0

