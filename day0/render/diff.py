"""Two releases side by side, where they differ."""

from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.numbers import count, size
from day0.render.table import stack, table, verdict
from day0.spec.reports.diff import ChangeRow, DiffReport, Value

TITLES = {"config": "configuration"}


def diff(report: DiffReport) -> RenderableType:
    """A summary, then a line for each difference, by part."""
    if report.verdict == "same":
        said = verdict(f"{report.before} and {report.after} are the same release, as far as headers tell", True)
        return stack(said, weights(report))
    parts = [(part, list(rows)) for part, rows in groupby(report.changes, lambda change: change.part)]
    summary = ", ".join(f"{len(rows)} in {TITLES.get(part, part)}" for part, rows in parts)
    head = verdict(f"{report.before} and {report.after} differ: {summary}", None)
    return stack(head, Text(), changes(report, parts), weights(report))


def changes(report: DiffReport, parts: list[tuple[str, list[ChangeRow]]]) -> Table:
    """Before and after of each."""
    made = table("", report.before, report.after, "change", right=("change",))
    for part, rows in parts:
        made.add_row(Text(TITLES.get(part, part), style="bold"))
        for row in rows:
            made.add_row(Text(f"  {row.key}"), Text(value(row, row.before)), Text(value(row, row.after)), relative(row))
    return made


def value(row: ChangeRow, found: Value) -> str:
    """A value with the unit of its place."""
    if found is None:
        return "–"
    if type(found) is int and (row.part == "bytes" or "bytes" in row.key):
        return size(found)
    if type(found) is int and abs(found) >= 10_000:
        return count(found) if row.part in ("parameters", "layers") else f"{found:,}".replace(",", " ")
    return str(found)


def relative(row: ChangeRow) -> str:
    """By how much a number grew."""
    numbers = [found for found in (row.before, row.after) if isinstance(found, int | float) and not isinstance(found, bool)]
    if len(numbers) < 2 or not numbers[0]:
        return ""
    return f"{100 * (numbers[1] / numbers[0] - 1):+.2g} %" if abs(numbers[1]) < 3 * abs(numbers[0]) else f"× {numbers[1] / numbers[0]:.3g}"


def weights(report: DiffReport) -> Text | None:
    said = "values of weights were not compared: inspect both with --hash to tell whether files differ"
    return None if report.weights_compared else Text(said, style="dim")
