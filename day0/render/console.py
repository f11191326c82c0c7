"""The terminal: stdout carries the result, stderr everything else; colour only where a person looks at it."""

import os
import sys
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, RenderableType

from day0.spec.reports.base import Report

PLAIN_WIDTH = 120  # columns where there is no terminal to ask


def console(stream: TextIO | None = None) -> Console:
    """A console on `stream` (default: stdout): plain text without a terminal or under NO_COLOR."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    width = None if terminal or os.environ.get("COLUMNS") else PLAIN_WIDTH
    return Console(file=stream, color_system=None if plain else "auto", width=width, highlight=False, emoji=False, soft_wrap=False)


def show(report: Report, view: Callable[..., RenderableType], *, json: bool = False, yaml: bool = False) -> None:
    """Print a report on stdout: as JSON, as YAML, or the way `view` draws it."""
    if json:
        sys.stdout.write(report.to_json() + "\n")
    elif yaml:
        sys.stdout.write(report.to_yaml())
    else:
        console().print(view(report))


def note(text: str) -> None:
    """One line on stderr: a hint, what comes next, where a report lies."""
    console(sys.stderr).print(text, markup=False)
