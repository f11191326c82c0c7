"""Answer a request that went wrong again, alone and in its company, and say what it was.

Takes a bundle that `run` or `serve` left. The exit code is 1 when something is wrong with the computation.
"""

from pathlib import Path
from typing import Annotated

import typer

from day0.cli import options

Bundle = Annotated[Path, typer.Argument(metavar="BUNDLE", help="incident-N.yaml")]


def command(bundle: Bundle, json: options.Json = False, yaml: options.Yaml = False) -> int:
    """Replay, write replay.yaml beside the bundle, show."""
    from day0.render import console
    from day0.render import replay as view
    from day0.render.progress import progress
    from day0.spec.reports.base import file_input
    from day0.spec.reports.incident import IncidentReport
    from day0.stages.replay import replay

    incident = IncidentReport.read(bundle)
    with progress() as listen:
        report = replay(incident, listen)
    report.provenance.inputs = [file_input(bundle)]
    path = bundle.with_name(f"replay-{bundle.name}")
    report.write(path)
    console.show(report, view.replay, json=json, yaml=yaml)
    console.note(f"report: {path}")
    return 0 if report.verdict in ("near-tie flip", "reproduced") else 1
