"""`day0 target`: a manifest of the machine it runs on: what torch has registered, which types convert, libraries, a compiler, figures."""

import importlib.util
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from day0.engine.dispatcher import registered
from day0.spec.errors import Day0Error
from day0.spec.machine import Backend, Machine
from day0.spec.registry import backends
from day0.spec.target import Line, Support, Target, TypeLine
from day0.stages.machines import find_machine

KEYS = {"cpu": "CPU", "cuda": "CUDA", "rocm": "CUDA", "mps": "MPS", "xpu": "XPU"}  # backend → dispatch key; others share PrivateUse1
TYPES = (
    "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2", "int8", "uint8",
    "int32", "int64", "bool",
)  # fmt: skip
LIBRARIES = (
    "triton", "flash_attn", "flash_mla", "flashinfer", "deep_gemm", "aiter", "flag_gems", "fla", "torch_npu", "torch_musa", "torch_mlu",
    "intel_extension_for_pytorch",
)  # fmt: skip
SIDE = {True: 512, False: 4096}  # rows and columns of the measured product, on a processor or a card
COPIED = {True: 1 << 26, False: 1 << 30}  # bytes of the measured copy
REPEATS = 5


def write_manifest(machine_name: str | None, name: str | None) -> Target:
    """What this machine has, seen through one of its backends."""
    machine = find_machine(machine_name)
    if machine.declared:
        raise Day0Error(f"{machine.name} is a profile, not what is here", hint="`day0 target` is run on the machine that it describes")
    backend = backends().get(machine.backend)
    device = backend.device(0)
    where = f"ran on {machine.card.name} with torch {torch.__version__}"
    return Target(
        name=name or f"{machine.backend}-{platform.node() or 'here'}",
        title=f"{machine.card.name}, torch {torch.__version__}, {platform.system()} {platform.machine()}",
        backend=machine.backend,
        arch=machine.card.arch if machine.backend != "cpu" else "",
        providers=list(backend.providers),
        registered=registered(KEYS.get(machine.backend, "PrivateUse1")),
        types={each: type_line(each, device, where) for each in TYPES if hasattr(torch, each)},
        libraries={each: library(each) for each in LIBRARIES},
        triton=compiler(machine),
        figures=dict(figures(backend, device)),
    )


def type_line(name: str, device: Any, where: str) -> TypeLine:
    """What happens to a type on a device when it is converted and gathered; whether hardware multiplies it torch does not tell."""
    return TypeLine(cast=works(lambda: _converted(getattr(torch, name), device)), matrix="unknown", source=where)


def works(attempt: Callable[[], Any]) -> Support:
    """Whether torch does something instead of refusing it."""
    try:
        attempt()
    except (RuntimeError, TypeError, NotImplementedError):
        return "none"
    return "native"


def _converted(dtype: Any, device: Any) -> Any:
    narrow = torch.ones(4, 4, device=device).to(dtype)
    return narrow[torch.tensor([1, 3], device=device)].clone().to(torch.float32)


def library(name: str) -> Line:
    """Whether a module can be imported here; it is found, not imported."""
    found = importlib.util.find_spec(name) is not None
    return Line(has="native" if found else "none", source=f"{'found' if found else 'not found'} by Python {platform.python_version()}")


def compiler(machine: Machine) -> Line:
    """Triton, where it is installed and has a back end for the device; whether it compiles a type is for a compile log to say."""
    there = library("triton")
    if machine.backend == "cpu":
        return Line(has="none", source="Triton has an interpreter for processors, no compiler")
    return there if there.has == "none" else Line(has="unknown", source="installed; nothing was compiled")


def figures(backend: Backend, device: Any) -> Iterator[tuple[str, float]]:
    """The best of several runs: a copy that no cache holds, and a matrix product, in 1e9 bytes and 1e12 operations a second."""
    small = backend.name == "cpu"
    source = torch.empty(COPIED[small], dtype=torch.uint8, device=device).fill_(1)
    target = torch.empty_like(source)
    yield "copy_gbs", round(2 * source.nbytes / best(lambda: target.copy_(source), backend, device) / 1e9, 1)
    for name in ("bfloat16", "float32"):
        one = torch.ones(SIDE[small], SIDE[small], dtype=getattr(torch, name), device=device)
        yield f"matmul_tflops.{name}", round(2 * SIDE[small] ** 3 / best(lambda one=one: one @ one, backend, device) / 1e12, 3)  # type: ignore[misc]


def best(work: Callable[[], Any], backend: Backend, device: Any) -> float:
    """Least seconds of some runs, after one that does not count."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        work()
        backend.synchronise(device)
        times.append(time.perf_counter() - start)
    return min(times[1:])
