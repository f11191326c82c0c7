"""The terminal: stdout carries the result, stderr everything else; colour only where a person looks at it."""

import os
import sys
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

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
        draw(view(report))


def draw(renderable: RenderableType, stream: TextIO | None = None, *, wrap: bool = True) -> None:
    """Print on `stream` (default: stdout); without a terminal no line ends in blanks. Without `wrap` long lines stay whole."""
    stream = stream or sys.stdout
    screen = console(stream)
    if screen.is_terminal:
        screen.print(renderable, soft_wrap=not wrap)
        return
    with screen.capture() as captured:
        screen.print(renderable, soft_wrap=not wrap)
    stream.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))
    stream.flush()


def note(text: str) -> None:
    """One line on stderr: a hint, what comes next, where a report lies."""
    draw(Text(text), sys.stderr, wrap=False)
