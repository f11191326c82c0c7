"""The command line: loads the one command that is asked for, and turns what goes wrong into a message and an exit code."""

import ast
import difflib
import importlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import day0
from day0.spec.errors import Day0Error, Refused
from day0.spec.reports import CHAIN

ALIASES = {"validate-layer": "validate"}


@cache
def files() -> dict[str, Path]:
    """Files that may be commands, by the name that they would have."""
    return {path.stem.replace("_", "-"): path for path in Path(__file__).parent.glob("*.py")}


@cache
def told(name: str) -> str | None:
    """First line of the docstring of a command's file, which is read and not imported; None where there is no such command."""
    tree = ast.parse(files()[name].read_text(encoding="utf-8")) if name in files() else None
    if tree is None or not any(isinstance(node, ast.FunctionDef) and node.name == "command" for node in tree.body):
        return None
    return (ast.get_docstring(tree) or "").partition("\n")[0]


@cache
def commands() -> dict[str, str]:
    """Command → first line of its file's docstring, in the order of the chain."""
    said = {name: told(name) for name in files()}
    found = {name: line for name, line in said.items() if line is not None}
    order = {ALIASES.get(stage, stage): place for place, stage in enumerate(CHAIN)}
    return {name: found[name] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


class Commands(TyperGroup):
    """One command for each file of this package that defines `command`; a file is imported when its command is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = ALIASES.get(cmd_name, cmd_name)
        if told(name) is None:
            return None
        module = importlib.import_module(f"day0.cli.{name.replace('-', '_')}")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name, help=module.__doc__)(module.command)
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in ALIASES and told(args[0]) is None:
            near = difflib.get_close_matches(args[0], [*commands(), *ALIASES], 1)
            raise Day0Error(f"there is no command {args[0]!r}", hint=f"did you mean `day0 {near[0]}`?" if near else "see `day0 --help`")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        stages = {ALIASES.get(stage, stage) for stage in CHAIN}
        for title, inside in (("The chain", True), ("Other commands", False)):
            rows = [(name, line) for name, line in commands().items() if (name in stages) == inside]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


app = typer.Typer(cls=Commands, name="day0", rich_markup_mode=None, pretty_exceptions_enable=False)


def version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"day0 {day0.__version__}")
        raise typer.Exit


@app.callback()
def root(shown: Annotated[bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")] = False) -> None:
    """Bring a model that was released today up on a machine that nobody has run it on.

    Exit codes: 0 the answer is yes; 1 the tool worked and the answer is no; 2 the tool could not work.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = bool(os.environ.get("DAY0_DEBUG"))
    try:
        code = typer.main.get_command(app).main(args=arguments or ["--help"], prog_name="day0", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; nothing is left to say
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        usage = isinstance(error, typer.TyperException)
        if debug and not usage:
            raise
        complain(error)
        return 1 if isinstance(error, Refused) else 2
    return code if isinstance(code, int) else 0


def complain(error: Exception) -> None:
    """Say on stderr what went wrong, where, and what to do about it."""
    problem, hint = str(error), None
    if isinstance(error, Day0Error):
        problem, hint = (f"{error.where}: " if error.where else "") + error.problem, error.hint
    elif isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        problem, hint = error.format_message(), f"see `{context.command_path if context else 'day0'} --help`"
    elif isinstance(error, OSError) and error.strerror:
        problem = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        problem = f"unexpected {type(error).__name__}: {problem}"
        hint = "this is a fault of day0; set DAY0_DEBUG=1 for the traceback"
    print(f"error: {problem}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
