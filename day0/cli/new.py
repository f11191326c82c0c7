"""Draft a file for something that day0 does not have yet.

A family is drafted from the model that needs it: the closest known family, what matches, what is unknown. The other kinds fill a template.
Names: `<operator>_<provider>` for a kernel, `dNNNN_<name>` for a check. The tests in tests/conformance fail until a draft is filled.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from day0.spec.errors import Day0Error

Kind = Annotated[
    Literal["family", "op", "part", "format", "check", "backend", "kernel"], typer.Argument(metavar="KIND", help="family, op, part, …")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the file, without its ending.")]
Model = Annotated[Path | None, typer.Option("--from", metavar="MODEL", help="Folder of a model that no family reads; for a family.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write into DIR/families, DIR/ops, …; default: this checkout.")]


def command(kind: Kind, name: Name, model: Model = None, out: Out = None) -> int:
    """Write the draft, say what is left to do."""
    if (kind == "family") != (model is not None):
        problem = "a family is drafted from a model" if kind == "family" else f"--from goes with a family, not with {kind}"
        raise Day0Error(problem, hint="day0 new family NAME --from MODEL")
    from day0.render import console
    from day0.render import new as view
    from day0.stages.new import draft, draft_family, write

    found = None
    if model is None:
        drafts = draft(kind, name)
    else:
        family, found = draft_family(name, model)
        drafts = [family]
    paths = write(drafts, out)
    console.draw(view.new(paths, found))
    console.note(f"Next: day0 inspect {model}" if model else 'Next: fill what says "fill:", then run `python -m pytest tests/conformance`')
    return 0
