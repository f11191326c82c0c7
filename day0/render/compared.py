"""A plan beside others, and its frontier as a table for a spreadsheet."""

import csv
import io
from collections.abc import Sequence

from rich.table import Table

from day0.render.numbers import size, tokens
from day0.render.table import table
from day0.spec.reports.calibration import Residual, Variant
from day0.spec.reports.plan_memory import PlanMemoryReport


def variants(rows: Sequence[Variant]) -> Table:
    """What other workloads would change."""
    made = table("what if", "verdict", "cards", "cut", "free", "longest context", "largest batch", right=("cards", "free", "longest context"))
    for row in rows:
        free = size(row.free) if row.free >= 0 else f"-{size(-row.free)}"
        made.add_row(row.change, row.verdict, str(row.cards), row.placement, free, tokens(row.max_context), str(row.max_batch))
    return made


def residuals(rows: Sequence[Residual]) -> Table:
    """What a log says beside the plan."""
    made = table("pool", "planned", "measured", "residual", "line", right=("planned", "measured", "residual", "line"))
    for row in rows:
        shown = size if row.unit == "bytes" else tokens
        planned = "in the margin" if row.planned is None else shown(row.planned)
        made.add_row(row.pool, planned, shown(row.measured), "" if row.share is None else f"{100 * row.share:+.2f} %", str(row.line))
    return made


def frontier(report: PlanMemoryReport) -> str:
    """CSV: context and the most sequences of it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("context", "batch", "tokens"))
    writer.writerows((point.context, point.batch, point.context * point.batch) for point in report.frontier)
    return out.getvalue()
