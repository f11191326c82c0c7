"""The one style of tables and verdicts."""

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

MARKS = {"pass": ("✓", "green"), "fail": ("✗", "red"), "warn": ("!", "yellow"), "unknown": ("?", "cyan")}


def table(*columns: str, right: tuple[str, ...] = (), title: str | None = None) -> Table:
    """An open table; the columns in `right` hold numbers."""
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left", header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def mark(status: str) -> Text:
    """The sign of a finding's status."""
    sign, colour = MARKS[status]
    return Text(sign, style=colour)


def verdict(text: str, good: bool | None) -> Text:
    """The first line of every answer: green for yes, red for no, yellow for neither."""
    return Text(text, style="bold " + {True: "green", False: "red", None: "yellow"}[good])


def facts(pairs: list[tuple[str, str]]) -> Table:
    """Names and values in two columns, without a head."""
    made = Table.grid(padding=(0, 2))
    for name, value in pairs:
        made.add_row(Text(name, style="dim"), Text(value))
    return made


def stack(*parts: RenderableType | None) -> Group:
    """One below the other; None is left out."""
    return Group(*(part for part in parts if part is not None))
