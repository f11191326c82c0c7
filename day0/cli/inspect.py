"""Say what a released model is, and whether the copy is sound.

Reads headers and configuration, no weights. The exit code is 1 when a finding fails.
"""

from typing import Annotated

import typer

from day0.cli import options

Hash = Annotated[bool, typer.Option("--hash", help="Digest every weight file whole; reads all bytes.")]
Deep = Annotated[bool, typer.Option("--deep", help="Look for NaN, infinite and all-zero values in a sample of every tensor.")]
Layers = Annotated[bool, typer.Option("--layers", help="Show every layer too.")]
Tensors = Annotated[bool, typer.Option("--tensors", help="Show all tensors too, by the pattern of their names.")]


def command(
    model: options.ReleaseArgument,
    hash: Hash = False,
    deep: Deep = False,
    layers: Layers = False,
    tensors: Tensors = False,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Inspect, write the report, show it."""
    from day0.checkpoint.source import at
    from day0.render import console
    from day0.render import inspect as view
    from day0.render.progress import progress
    from day0.stages.chain import Chain
    from day0.stages.inspect import inspect
    from day0.stages.tensors import tensors as kinds

    chain = Chain.of(reports, model)
    with progress() as listener:
        source = at(model, listener)
        report = inspect(source, hash=hash, deep=deep, kept=chain.kept, progress=listener)
    path = chain.write(report)
    console.show(report, view.inspect, json=json, yaml=yaml)
    if not (json or yaml):
        for drawn in (*((view.layers(report),) if layers else ()), *((view.tensors(kinds(source)),) if tensors else ())):
            console.draw(drawn)
    sound = report.verdict == "sound"
    console.note(f"Next: day0 plan-memory   report: {path}" if sound else f"report: {path}")
    return 0 if sound else 1
