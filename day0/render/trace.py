"""Traces, and the difference of two, as a person reads them."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.table import stack, table, verdict
from day0.spec.reports.trace import TraceDiffReport, TraceDiffRow, TraceReport


def trace(report: TraceReport) -> RenderableType:
    """Figures of every tensor."""
    said = f"{report.model}, {report.executor} in {report.dtype}, {report.tokens} tokens: "
    broken = next((row for row in report.rows if row.broken), None)
    said += f"NaN or infinite from {where(broken.layer, broken.part)} on" if broken else "every value is finite"
    made = table("", "shape", "rms", "mean", "largest", "broken", right=("rms", "mean", "largest", "broken"))
    for row in report.rows:
        shape = " × ".join(map(str, row.shape))
        figures = (f"{row.rms:.3g}", f"{row.mean:.2g}", f"{row.peak:.3g}", str(row.broken) if row.broken else "")
        made.add_row(where(row.layer, row.part), shape, *figures)
    return stack(verdict(said, report.verdict == "finite"), Text(), made)


def diff(report: TraceDiffReport) -> RenderableType:
    """The first tensor that stands out, then all."""
    head = f"{report.before} and {report.after} agree as well as their types let them"
    if report.first:
        at = f"{where(report.first.layer, report.first.part)}{rank(report.first)}"
        head = f"{report.before} and {report.after} part at {at}: {error(report.first)}"
    notes = [Text(note, style="yellow") for note in report.notes]
    return stack(verdict(head, report.first is None), *notes, Text(), _rows(report))


def _rows(report: TraceDiffReport) -> Table:
    made = table("", "relative error", "values", right=("relative error", "values"))
    for row in report.rows:
        style = "bold red" if row == report.first else ""
        made.add_row(where(row.layer, row.part), error(row), str(row.values), style=style)
    return made


def rank(row: TraceDiffRow) -> str:
    """Which one is to blame."""
    return "" if row.rank is None else f" of rank {row.rank}"


def error(row: TraceDiffRow) -> str:
    """In figures, or why there are none."""
    if row.error is None:
        return "broken on one side" if row.values else "another shape"
    return f"{row.error:.1e}"


def where(layer: int | None, part: str) -> str:
    """"layer 3 mixer"."""
    return part if layer is None else f"layer {layer} {part}"
