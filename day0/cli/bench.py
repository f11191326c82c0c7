"""Time every implementation of an operator, each only after it was found right on all of the operator's cases.

Without sizes the largest case is timed. `--sizes T=1,O=4096,I=4096` gives others, `--map` takes those of the last map's calls. On this
processor. The exit code is 1 when an implementation is wrong.
"""

from typing import Annotated

import typer

from day0.cli import options
from day0.spec.errors import Day0Error

Operator = Annotated[str, typer.Argument(metavar="OP", help="Operator, a file in day0/ops/: linear, experts, …")]
Sizes = Annotated[list[str] | None, typer.Option("--sizes", metavar="AXES", help="Such as T=1,O=4096,I=4096; may be given several times.")]
OfMap = Annotated[bool, typer.Option("--map", help="Sizes of the last map's calls of the operator.")]
Type = Annotated[str, typer.Option("--dtype", metavar="TYPE", help="float32, bfloat16 or float16.")]


def command(
    op: Operator,
    sizes: Sizes = None,
    of_map: OfMap = False,
    dtype: Type = "bfloat16",
    threads: options.Threads = None,
    model: options.ModelOption = None,
    reports: options.Reports = options.REPORTS,
) -> int:
    """Check, time, compare."""
    from day0.spec.dtype import compute_dtype
    from day0.spec.registry import ops

    ops().get(op)
    wanted, kind = [_sizes(text) for text in sizes or []], compute_dtype(dtype)
    import torch

    from day0.render import bench as view
    from day0.render import console
    from day0.spec.reports.map_ops import MapOpsReport
    from day0.stages.bench import bench, sizes_of
    from day0.stages.chain import Chain

    if threads:
        torch.set_num_threads(threads)
    if of_map:
        wanted += sizes_of(op, Chain.find(reports, model).read(MapOpsReport).sites)
    timings = list(bench(op, kind, wanted))
    console.draw(view.bench(timings))
    console.note(f"{kind} on this processor, {torch.get_num_threads()} threads; medians")
    return 1 if any(one.wrong for one in timings) else 0


def _sizes(text: str) -> tuple[tuple[str, int], ...]:
    """Axes and sizes of "T=1,O=4096"."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name and size.isdigit() and 0 < int(size) <= 1 << 20 for name, _, size in pairs):
        raise Day0Error(f"sizes {text!r} are not understood", hint="--sizes T=1,O=4096,I=4096")
    return tuple((name, int(size)) for name, _, size in pairs)
