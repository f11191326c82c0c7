"""Say what a check proves, why, what to do when it fails, and how that looks.

Without a code, all checks are listed under the command that makes them.
"""

from itertools import groupby
from typing import Annotated, Any

import typer

from day0.spec.errors import Day0Error

COMMANDS = {  # scope of a check → command; of all others validate
    **dict.fromkeys(("checkpoint", "release", "likely", "digests", "samples", "norms"), "inspect"), "plan": "plan-memory",
}  # fmt: skip


def command(code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="Code of a finding: D0204.")] = None) -> None:
    """The documentation of a check is the docstring of its file."""
    from day0.spec.registry import checks

    known = {check.code: check for _, check in checks().items()}
    if code is None:
        for made_by, listed in groupby(known.values(), _made_by):
            typer.echo(f"{made_by}:")
            typer.echo("".join(f"  {check.code}  {check.title}\n" for check in listed))
        return
    if code.upper() not in known:
        raise Day0Error(f"no check has the code {code!r}", hint=f"codes: {', '.join(known)}")
    found = known[code.upper()]
    example = f"\n\nExample: {found.example}" if found.example else ""
    typer.echo(f"{found.code}  {found.title}\n\nWhy: {found.why}\n\nRemedy: {found.remedy}{example}\n\nMade by: {_made_by(found)}")


def _made_by(check: Any) -> str:
    return f"day0 {COMMANDS.get(check.scope, 'validate')}"
