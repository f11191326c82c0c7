"""Serve the model over HTTP, as OpenAI's clients expect it, until interrupted.

The first Ctrl-C lets answers end, the second does not wait. Keys can also be given, separated by commas, in DAY0_API_KEY. A request
that fails leaves a bundle for `day0 replay`.
"""

from typing import Annotated, Any

import typer

from day0.cli import options
from day0.spec.errors import Day0Error


def command(
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 is all of them.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    name: Annotated[str | None, typer.Option("--name", help="Name that clients ask for; default: the release's.")] = None,
    api_key: Annotated[list[str] | None, typer.Option("--api-key", help="Ask clients for this key; may be given several times.")] = None,
    max_requests: Annotated[int, typer.Option("--max-requests", min=1, help="Sequences that run or wait; more get 503.")] = 512,
    patience: Annotated[int, typer.Option("--patience", min=0, help="Seconds that answers have to end after Ctrl-C.")] = 30,
    record: options.Record = None,
    model: options.ModelOption = None,
    machine: options.Machine = None,
    device: options.Device = None,
    weights: options.Weights = None,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Report in serve.yaml, when ready and when it ends."""
    import os

    from day0.render import console
    from day0.stages.chain import Chain
    from day0.stages.incident import Incidents
    from day0.stages.machines import find_machine
    from day0.stages.opening import open_chain

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    opening = open_chain(chain, "native", device, weights)
    keys = api_key or [key for key in os.environ.get("DAY0_API_KEY", "").split(",") if key]
    wanted: dict[str, Any] = {"host": host, "port": port, "name": name, "api_keys": tuple(keys), "max_requests": max_requests, "patience": patience}
    wanted["incidents"] = Incidents(folder=record or chain.folder / "incidents", every=record is not None, tell=console.note)
    return _serve(chain, opening, wanted, json, yaml)


def _serve(chain: Any, opening: Any, wanted: dict[str, Any], json: bool, yaml: bool) -> int:
    """Serve, and say so; the report is written when ready and at the end."""
    import sys

    from day0.render import console
    from day0.render.progress import progress
    from day0.render.serve import farewell, greeting

    try:
        from day0.stages.serve import Wanted, serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("day0"):
            raise
        raise Day0Error(f"serving needs {error.name}, which is not installed", hint="pip install 'day0[serve]'") from None

    def ready(serving: Any) -> None:
        report = _masked(serving.report(), wanted["api_keys"])
        console.console(sys.stderr).print(greeting(report))
        console.note(f"Ctrl-C ends it   report: {chain.write(report)}")

    with progress() as listen:
        report = _masked(serve(opening, Wanted(**wanted), ready, listen), wanted["api_keys"])
    chain.write(report)
    console.show(report, farewell, json=json, yaml=yaml)
    return 0 if report.verdict == "serves" else 1


def _masked(report: Any, keys: tuple[str, ...]) -> Any:
    """The report with the command line that made it, in which no key is readable."""
    import sys

    from day0.stages.chain import PRESENTATION

    words = ["day0", *(word for word in sys.argv[1:] if word not in PRESENTATION)]
    for key in keys:
        words = [word.replace(key, "***") for word in words]
    report.provenance.command = words
    return report
