"""The map as a person reads it: who runs each operator, and where a better implementation refused."""

from collections import Counter

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.numbers import seconds, size
from day0.render.table import facts, stack, table, verdict
from day0.spec.reports.map_ops import MapOpsReport, SiteRow, Step


def map_ops(report: MapOpsReport) -> RenderableType:
    """Verdict, operators, refusals."""
    summary = ", ".join(f"{count} {status}" for status, count in report.summary.items())
    refused = refusals(report)
    notes = [("target", report.target + (", emulated" if report.emulated else "")), ("placement", report.placement)]
    notes += [("providers", " → ".join(report.providers) + (" (forced)" if report.forced else "")), ("calls", summary)]
    notes += [(step, shares(report, step)) for step in report.shares]
    notes += [("not verified", f"{report.unverified} of {len(report.sites)} calls")] if report.unverified else []
    notes += [("missing", line) for line in report.missing]
    notes += [(f"kernel {name}", reason) for name, reason in report.unavailable.items()]
    return stack(
        verdict(f"{report.model} on {report.machine}: {report.verdict}", report.verdict == "complete"),
        facts(notes),
        Text(),
        fallbacks(report) if report.fallbacks else None,
        Text() if report.fallbacks else None,
        operators(report),
        Text() if refused.row_count else None,
        refused if refused.row_count else None,
    )


def shares(report: MapOpsReport, step: Step) -> str:
    """Such as "96 % native, 4 % reference, by bytes moved"."""
    told = ", ".join(f"{percent(share)} {status}" for status, share in report.shares[step].items())
    time = report.seconds[step]
    return f"{told}, by {'bytes moved' if time is None else f'time: at least {seconds(time)} a step'}"


def percent(share: float) -> str:
    """A share; what is less than a thousandth says so."""
    return f"{share:.1%}".replace("%", " %") if share >= 0.001 or share == 0 else "<0.1 %"


def fallbacks(report: MapOpsReport) -> Table:
    """What nothing was made for here, with its price and what would mend it."""
    right = ("calls", "prefill", "decode", "slower", "or unpacked")
    made = table("fallback", "runs as", *right, "because", "remedy", right=right)
    for row in report.fallbacks:
        unpacked = f"+{size(row.unpacked)}" if row.unpacked else ""
        worth = (str(row.calls), percent(row.prefill), percent(row.decode), f"{row.slower:.1f}×" if row.slower else "?", unpacked)
        made.add_row(row.op, row.status, *worth, Text(row.reason), Text("\n".join(filter(None, (row.remedy, row.instead)))))
    for kernel in report.vendors:
        made.add_row(kernel.op, "", "", "", "", "", "", Text(f"{kernel.library} has it: {kernel.serves}"), Text(kernel.source))
    return made


def operators(report: MapOpsReport) -> Table:
    """Calls that differ only in their layer, their phase or their label are one row; the largest share of decode comes first."""
    calls: dict[tuple[str, ...], list[SiteRow]] = {}
    for site in report.sites:
        weights = f"{site.format}, decoded" if site.decode else site.format
        calls.setdefault((site.op, site.place, site.label, site.provider or "nobody", site.status, weights, site.dtype), []).append(site)
    rows: dict[tuple[str, ...], list[str]] = {}
    worth: dict[tuple[str, ...], Counter[str]] = {}
    for (op, place, label, *how), members in calls.items():
        phases = sorted({site.phase for site in members})
        row = (op, place, layers(members), phases[0] if len(phases) == 1 else "both", *how)
        rows.setdefault(row, []).append(label)
        for site in members:
            worth.setdefault(row, Counter())[site.phase] += site.share  # type: ignore[assignment]
    right = ("prefill", "decode")
    made = table("operator", "where", "layers", "phase", "runs on", "status", "weights", "type", *right, right=right)
    made.columns[0].no_wrap = True
    for row, labels in sorted(rows.items(), key=lambda each: (-worth[each[0]]["decode"], -worth[each[0]]["prefill"], each[0])):
        op, place, *rest = row
        shown = (percent(worth[row][phase]) if phase in worth[row] else "" for phase in right)
        made.add_row(op, f"{place}: {', '.join(labels)}" if place else ", ".join(labels), *rest, *shown)
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
