"""Say what changed from one release to another, or where two traces part.

Takes two inspect reports, folders or addresses; or two traces (folders that `day0 trace` wrote, or safetensors files that another program
dumped; B may be a folder with such a file of each of several ranks). The exit code is 1 when something differs.
"""

from pathlib import Path
from typing import Annotated

import typer

from day0.cli import options

Before = Annotated[Path, typer.Argument(metavar="A", help="inspect.yaml, folder, or address of a release; or a trace.")]
After = Annotated[Path, typer.Argument(metavar="B", help="The same of the other one.")]


def command(before: Before, after: After, json: options.Json = False, yaml: options.Yaml = False) -> int:
    """Compare, show the differences."""
    from day0.render import console
    from day0.render import diff as view
    from day0.render.progress import progress

    if before.suffix == ".safetensors" or (before / "trace.yaml").is_file():
        return _traces(before, after, json, yaml)
    from day0.stages.diff import diff

    with progress() as listener:
        report = diff(before, after, listener)
    console.show(report, view.diff, json=json, yaml=yaml)
    return 0 if report.verdict == "same" else 1


def _traces(before: Path, after: Path, json: bool, yaml: bool) -> int:
    """The first tensor whose error stands out."""
    from day0.render import console
    from day0.render import trace as view
    from day0.stages.trace_diff import Trace, diff_traces

    report = diff_traces(Trace.open(before), Trace.open(after))
    console.show(report, view.diff, json=json, yaml=yaml)
    return 0 if report.verdict == "same" else 1
