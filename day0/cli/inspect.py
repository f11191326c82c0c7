"""Say what a released model is, and whether the copy is sound.

Reads headers and configuration, no weights. The exit code is 1 when a finding fails.
"""

from typing import Annotated

import typer

from day0.cli import options

Hash = Annotated[bool, typer.Option("--hash", help="Digest every weight file whole; reads all bytes.")]
Deep = Annotated[bool, typer.Option("--deep", help="Look for NaN, infinite and all-zero values in a sample of every tensor.")]


def command(
    model: options.ModelArgument,
    hash: Hash = False,
    deep: Deep = False,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Inspect, write the report, show it."""
    from day0.render import console
    from day0.render import inspect as view
    from day0.render.progress import progress
    from day0.stages.chain import Chain
    from day0.stages.inspect import inspect

    chain = Chain.of(reports, model)
    with progress() as listener:
        report = inspect(model, hash=hash, deep=deep, kept=chain.folder.parent / "digests.jsonl", progress=listener)
    path = chain.write(report)
    console.show(report, view.inspect, json=json, yaml=yaml)
    sound = report.verdict == "sound"
    console.note(f"Next: day0 plan-memory   report: {path}" if sound else f"report: {path}")
    return 0 if sound else 1
