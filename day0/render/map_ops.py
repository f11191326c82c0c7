"""The map as a person reads it: who runs each operator, and where a better implementation refused."""

from collections import Counter

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.table import facts, stack, table, verdict
from day0.spec.reports.map_ops import MapOpsReport, SiteRow


def map_ops(report: MapOpsReport) -> RenderableType:
    """Verdict, operators, refusals."""
    summary = ", ".join(f"{count} {status}" for status, count in report.summary.items())
    refused = refusals(report)
    notes = [("providers", " → ".join(report.providers) + (" (forced)" if report.forced else "")), ("calls", summary)]
    notes += [("missing", line) for line in report.missing]
    notes += [(f"kernel {name}", reason) for name, reason in report.unavailable.items()]
    return stack(
        verdict(f"{report.model} on {report.machine}: {report.verdict}", report.verdict == "complete"),
        facts(notes),
        Text(),
        operators(report),
        Text() if refused.row_count else None,
        refused if refused.row_count else None,
    )


def operators(report: MapOpsReport) -> Table:
    """Calls that differ only in their layer, their phase or their label are one row."""
    calls: dict[tuple[str, ...], list[SiteRow]] = {}
    for site in report.sites:
        weights = f"{site.format}, decoded" if site.decode else site.format
        calls.setdefault((site.op, site.place, site.label, site.provider or "nobody", site.status, weights, site.dtype), []).append(site)
    rows: dict[tuple[str, ...], list[str]] = {}
    for (op, place, label, *how), members in calls.items():
        phases = sorted({site.phase for site in members})
        rows.setdefault((op, place, layers(members), phases[0] if len(phases) == 1 else "both", *how), []).append(label)
    made = table("operator", "where", "layers", "phase", "runs on", "status", "weights", "type")
    made.columns[0].no_wrap = True
    for (op, place, *rest), labels in sorted(rows.items()):
        made.add_row(op, f"{place}: {', '.join(labels)}" if place else ", ".join(labels), *rest)
    return made


def layers(members: list[SiteRow]) -> str:
    """Indices as ranges: "0-2, 5"."""
    ranges: list[list[int]] = []
    for index in sorted({site.layer for site in members if site.layer is not None}):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def refusals(report: MapOpsReport) -> Table:
    counted = Counter((site.op, refusal.provider, refusal.reason) for site in report.sites for refusal in site.refusals)
    made = table("operator", "refused by", "because", "calls", right=("calls",))
    for (op, provider, reason), count in sorted(counted.items()):
        made.add_row(op, provider, Text(reason), str(count))
    return made
