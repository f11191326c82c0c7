"""Write the manifest of this machine: run it on a target, and `day0 map-ops --target FILE` maps for it anywhere.

It holds what torch has registered for the device, which number types convert, which vendors' libraries can be imported, whether there is a
compiler, and a measured copy and matrix product.
"""

from pathlib import Path
from typing import Annotated

import typer

from day0.cli import options

Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of printing it.")]
Name = Annotated[str | None, typer.Option("--name", help="Name of the target; default: the backend and this host.")]


def command(machine: options.Machine = None, out: Out = None, name: Name = None) -> None:
    """YAML on stdout, or in a file."""
    import yaml

    from day0.render import console
    from day0.stages.target import write_manifest

    found = write_manifest(machine, name).model_dump(mode="json", exclude_defaults=True)
    text = yaml.safe_dump(found, sort_keys=False, width=140, allow_unicode=True, default_flow_style=None)
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    console.note(f"Next: day0 map-ops --target {out}")
