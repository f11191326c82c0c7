"""Every Triton kernel of the registry on a device: compared with its operator's reference, then timed against a measured roofline.

    bench/device.sh [docs/device.md]

A build is one of the calls that are compiled ahead of time (`BUILDS` of the kernel's file). Its share is that of the longer of two times:
for the bytes that the operator must move, at the bandwidth of a large copy; for its arithmetic, at the rate of a large product in the same
type. Times are medians of calls after the cache was overwritten. A wrong kernel has no time.
"""

import argparse
import datetime
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch

from day0.engine.arguments import mapped, phases, site, unpacked, widened
from day0.engine.gate import judge, mistyped
from day0.spec.lazy import torch_dtype
from day0.spec.machine import Card, Machine
from day0.spec.ops import Case, Cost, Impl, Op, Phase
from day0.spec.packed import Packed
from day0.spec.step import Segment
from day0.spec.tuning import architecture
from tests.kernels import interpret
from tests.kernels.calls import FILES, arguments, builds, interpreted
from tests.kernels.interpret import results

RUNS = 15
RIGHT = "right"
LAPSE = 240.0  # seconds that timing may take in all; what is left over is compared, not timed


class Roofline(NamedTuple):
    """What the device does at its best."""

    bandwidth: float  # bytes a second, read and written
    flops: dict[str, float]  # type → operations a second

    def seconds(self, flops: float, moved: float, dtype: str) -> float:
        return max(moved / self.bandwidth, flops / self.flops.get(dtype, max(self.flops.values())))


class Row(NamedTuple):
    """One call of one file."""

    file: str
    call: str
    dtype: str
    verdict: str  # "right", "refused: …", or what is wrong
    seconds: float | None = None
    share: float | None = None  # of the roofline


class Stopwatch:
    """Times calls on a device, each with a cold cache."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.sweep = device, torch.empty(1 << 28 if device.type == "cuda" else 1, dtype=torch.int8, device=device)

    def __call__(self, call: Callable[[], Any]) -> float:
        """Median seconds."""
        call()
        return statistics.median(self._once(call) for _ in range(RUNS))

    def _once(self, call: Callable[[], Any]) -> float:
        self.sweep.zero_()
        if self.device.type != "cuda":
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize(self.device)
        return begin.elapsed_time(end) / 1e3


def roofline(watch: Stopwatch) -> Roofline:
    """A copy of a large tensor, and products of large matrices."""
    device = watch.device
    elements, width = (1 << 29, 8192) if device.type == "cuda" else (1 << 16, 64)
    source, other = (torch.ones(elements, dtype=torch.bfloat16, device=device) for _ in range(2))
    rates = {}
    for dtype in ("bfloat16", "float16", "float32"):
        a, b = (torch.ones(width, width, dtype=torch_dtype(dtype), device=device) for _ in range(2))
        rates[dtype] = 2 * width**3 / watch(lambda a=a, b=b: a @ b)
    return Roofline(bandwidth=2 * source.nbytes / watch(lambda: other.copy_(source)), flops=rates)


def machine(device: torch.device) -> Machine:
    """What kernels are asked about."""
    arch = architecture(device) or "sm_90"
    return Machine(name="here", backend="rocm" if arch.startswith("gfx") else "cuda", card=Card(name="here", memory=1 << 37, arch=arch))


def calls(file: str, dry: bool) -> Iterator[tuple[Impl, Op, Case, str, str]]:
    """(implementation, operator, case, type, name) of what a file is measured on; `dry`: the smallest case that it takes."""
    for impl, build, op, case in builds(file):
        if dry:
            found = min(interpreted(impl, build.dtype), key=lambda each: size(each[2]), default=None)
            if found:
                yield impl, op, found[1], build.dtype, found[1].name
            return
        yield impl, op, case, build.dtype, build.name


def size(made: dict[str, Any]) -> int:
    return sum(value.numel() for value in made.values() if isinstance(value, torch.Tensor))


def measure(file: str, watch: Stopwatch, best: Roofline, until: float, dry: bool) -> Iterator[Row]:
    """Every call of one file."""
    for impl, op, case, dtype, name in calls(file, dry):
        made = mapped(arguments(op, case, dtype), lambda x: x.to(watch.device))
        phase = next((one for one in phases(made) if impl.refuses(site(op, made, dtype, one), machine(watch.device)) is None), None)
        if phase is None:
            yield Row(file, name, dtype, f"refused: {impl.refuses(site(op, made, dtype, phases(made)[0]), machine(watch.device))}")
            continue
        wrong = compared(impl, op, made)
        if wrong or time.perf_counter() > until:
            yield Row(file, name, dtype, wrong or RIGHT)
            continue
        cost = least(op, made, dtype, phase)
        seconds = watch(lambda made=made, impl=impl: impl.fn(**made))
        yield Row(file, name, dtype, RIGHT, seconds, best.seconds(cost.flops, cost.bytes * at_rest(made), dtype) / seconds)


def least(op: Op, made: dict[str, Any], dtype: str, phase: Phase) -> Cost:
    """Arithmetic and bytes of a call; one that reads state costs once for each of its sequences."""
    asked, segment = site(op, made, dtype, phase), next((value for value in made.values() if isinstance(value, Segment)), None)
    if segment is None:
        return op.cost(asked)
    spans = zip(segment.queries, segment.lengths, strict=True)
    each = [op.cost(replace(asked, sizes={**asked.sizes, "T": count, "S": length})) for count, length in spans]
    return Cost(flops=sum(one.flops for one in each), bytes=sum(one.bytes for one in each))


def at_rest(made: dict[str, Any]) -> float:
    """Bytes of the weights, as a part of what they would be in 16 bits; they are nearly all that calls of few tokens read."""
    weights = [value for value in made.values() if isinstance(value, Packed)]
    stored = sum(part.nbytes for weight in weights for part in weight.parts.values())
    return stored / sum(2 * prod(weight.shape) for weight in weights) if weights else 1.0


def compared(impl: Impl, op: Op, made: dict[str, Any]) -> str | None:
    """What is wrong with the result of a call; the reference computes in float64 on the same device."""
    found = results(impl.fn(**made))
    return mistyped(op, found, results(op.reference(**unpacked(made)))) or judge(op, found, results(op.reference(**widened(made))))


def page(rows: list[Row], best: Roofline, device: torch.device, dry: bool) -> Iterator[str]:
    """The report, in lines of Markdown."""
    import triton

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a processor, in Triton's interpreter"
    rates = ", ".join(f"{dtype} {rate / 1e12:.1f} TFLOPS" for dtype, rate in best.flops.items())
    yield "# Triton kernels on a device" + (" (dry run: times mean nothing)" if dry else "")
    yield f"\n{name}, torch {torch.__version__}, Triton {triton.__version__}, {datetime.date.today()}, by `bench/device.sh`."
    yield f"Measured first: copy {best.bandwidth / 1e9:.0f} GB/s, products {rates}.\n"
    yield "| kernel | call | type | verdict | µs | share of roofline |\n|---|---|---|---|---:|---:|"
    for row in rows:
        time_it = ("", "") if row.seconds is None or row.share is None else (f"{row.seconds * 1e6:.1f}", f"{row.share:.0%}")
        yield f"| {row.file} | {row.call} | {row.dtype} | {row.verdict} | {time_it[0]} | {time_it[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, help="page to write too")
    parser.add_argument("--dry", action="store_true", help="on a processor, in the interpreter")
    parser.add_argument("--only", nargs="*", default=FILES, help="files in kernels/")
    given = parser.parse_args()
    if given.dry:
        interpret.start()
    device = torch.device("cpu" if given.dry else "cuda")
    watch = Stopwatch(device)
    best, rows, until = roofline(watch), [], time.perf_counter() + LAPSE
    for file in given.only:
        rows += measure(file, watch, best, until, given.dry)
    text = "\n".join(page(rows, best, device, given.dry))
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    raise SystemExit(0 if all(row.verdict.startswith((RIGHT, "refused")) for row in rows) else 1)


if __name__ == "__main__":
    main()
