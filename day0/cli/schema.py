"""Print the JSON Schema of a stage's report.

Without a stage, the stages are listed.
"""

from typing import Annotated

import typer

from day0.spec.errors import Day0Error


def command(stage: Annotated[str | None, typer.Argument(metavar="[STAGE]", help="inspect, plan-memory, …")] = None) -> None:
    """JSON Schema on stdout, for editors and for programs that read reports."""
    import json

    from day0.spec.reports.kinds import kinds

    known = kinds()
    if stage is None:
        typer.echo("\n".join(f"{name}  {kind.identity()}" for name, kind in known.items()))
        return
    name = stage.replace("_", "-")
    kind = known.get(name) or known.get(f"{name}-layer")
    if kind is None:
        raise Day0Error(f"no stage named {stage!r}", hint=f"stages: {', '.join(known)}")
    typer.echo(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **kind.model_json_schema(by_alias=True)}, indent=2))
