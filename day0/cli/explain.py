"""Say what a check proves, why, and what to do when it fails.

Without a code, all checks are listed.
"""

from typing import Annotated

import typer

from day0.spec.errors import Day0Error


def command(code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="Code of a finding: D0204.")] = None) -> None:
    """The documentation of a check is the docstring of its file."""
    import importlib
    import inspect

    from day0.spec.registry import checks

    files = {name.partition("_")[0].upper(): name for name in checks().names()}
    if code is not None and code.upper() not in files:
        raise Day0Error(f"no check has the code {code!r}", hint=f"codes: {', '.join(files)}")
    for known, file in files.items():
        text = inspect.getdoc(importlib.import_module(f"{checks().package}.{file}")) or ""
        if code is None:
            typer.echo(f"{known}  {text.partition(chr(10))[0]}")
        elif known == code.upper():
            typer.echo(f"{known}  {text}")
