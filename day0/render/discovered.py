"""Operators of the community's class, as a person reads them."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.map_ops import percent
from day0.render.numbers import count, size
from day0.render.table import facts, stack, table, verdict
from day0.spec.reports.discovered import DiscoveredReport, DiscoveredRow


def discovered(report: DiscoveredReport) -> RenderableType:
    """Verdict, operators, what the target lacks."""
    worst = sorted({row.status for row in report.rows} - {"native", "composite"})
    notes = [("of", report.release), ("traced", f"a prompt of {report.tokens} tokens and one more, {report.dtype}, on fake tensors")]
    notes += [("status", ", ".join(worst))] if worst else []
    notes += [("assumed", line) for line in report.assumed]
    notes += [("composed", line) for line in dict.fromkeys(way for row in report.rows for way in row.composed)]
    tables = (part for phase in ("prefill", "decode") for part in (Text(), operators(phase, [row for row in report.rows if row.phase == phase])))
    return stack(verdict(f"{report.model} on {report.target}: {report.verdict}", report.verdict == "complete"), facts(notes), *tables)


def operators(phase: str, rows: list[DiscoveredRow]) -> Table:
    right = ("modules", "calls", "operations", "bytes", "share")
    made = table(phase, "in", *right, "status", "because", right=right)
    made.columns[0].no_wrap = made.columns[1].no_wrap = True
    for row in rows:
        worth = (str(row.modules), str(row.calls), count(row.flops) if row.flops else "", size(row.bytes), percent(row.share))
        because = "" if row.status == "native" else row.evidence
        made.add_row(row.op or "(between)", row.module, *worth, row.status, Text(because))
    return made
