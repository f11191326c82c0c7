"""The comparison as a person reads it: verdict, the first thing that is wrong, the ladder, and errors by layer."""

from collections import defaultdict
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.numbers import seconds
from day0.render.plot import plot
from day0.render.table import facts, mark, stack, table, verdict
from day0.spec.reports.validate import DepthRow, LayerRow, ValidateReport


def validate(report: ValidateReport) -> RenderableType:
    """Verdict first, evidence below."""
    told = [finding for finding in report.findings if finding.status != "pass"]
    return stack(
        verdict(f"{report.model} against {report.reference}: {report.verdict}", report.verdict == "pass"),
        first(report),
        Text(),
        ladder(report),
        Text() if told else None,
        findings(report) if told else None,
        Text() if report.layer_errors else None,
        layers(report) if report.layer_errors else None,
        *(part for title, series in profiles(report).items() for part in (Text(), plot(series, f"relative error, {title}"))),
        Text() if report.towers else None,
        towers(report) if report.towers else None,
        Text() if report.switches else None,
        switches(report) if report.switches else None,
        Text() if report.norms else None,
        norms(report) if report.norms else None,
        Text() if report.logits else None,
        logits(report) if report.logits else None,
    )


def first(report: ValidateReport) -> RenderableType | None:
    """One block: where, what, and what should have been."""
    found = report.first_divergence
    if found is None:
        return None
    where = f"{found.line} (rung {found.rung}, {found.code})".removeprefix("first wrong at ")
    course = {"step": "the stream stays wrong from there on", "spike": "the stream recovers after it"}.get(found.course, "")
    rows = [("first wrong at", where), ("found", found.statistic), ("expected", found.expected)]
    more = {"later layers": course, "references disagree": found.references}
    return facts([*rows, *((name, text) for name, text in more.items() if text)])


def ladder(report: ValidateReport) -> Table:
    made = table("", "rung", "verdicts", "time", right=("verdicts", "time"))
    signs = {"pass": "pass", "fail": "fail", "not run": "unknown"}
    for rung in report.rungs:
        made.add_row(mark(signs[rung.verdict]), rung.name, str(rung.checks) if rung.checks else rung.verdict, seconds(rung.seconds))
    return made


def findings(report: ValidateReport) -> Table:
    made = table("", "check", "about", "expected", "found")
    for finding in report.findings:
        if finding.status != "pass":
            cells = (finding.code, finding.subject, finding.expected, finding.found)
            made.add_row(mark(finding.status), *(Text(cell) for cell in cells))
    return made


def layers(report: ValidateReport) -> Table:
    """The worst part and phase of each layer: relative error in float32, ratio to the reference's error in the model's own type."""
    own_type = f"error in {report.dtype}"
    numbers = ("error in float32", "worst row", own_type, "to the reference's", "null", "of the worst row", "flips")
    made = table("layer", *numbers, right=numbers)
    by_layer: dict[int, list[LayerRow]] = defaultdict(list)
    for row in report.layer_errors:
        by_layer[row.layer].append(row)
    flips: dict[int, int] = defaultdict(int)
    for choice in report.selections:
        flips[choice.layer] = max(flips[choice.layer], choice.flips)
    for layer, rows in by_layer.items():
        float32 = [row.errors for row in rows if row.dtype == "float32"]
        own = [row.errors for row in rows if row.dtype != "float32"]
        made.add_row(
            str(layer), f"{max(e.ours for e in float32):.1e}", f"{max(e.row_ratio * e.budget for e in float32):.1e}",
            f"{max(e.ours for e in own):.1e}" if own else "", f"{max(e.ratio for e in own):.2f}" if own else "",
            f"{max(e.null for e in own):.2f}" if own else "",
            f"{max(e.row_ratio for e in own):.1f}" if own else "", str(flips[layer]) if layer in flips else "",
        )  # fmt: skip
    return made


def profiles(report: ValidateReport) -> dict[str, dict[str, dict[int, float]]]:
    """Title → name of a series → layer → worst error: of each layer on the reference's stream, and of the stream through all layers."""
    kinds: dict[str, Sequence[LayerRow | DepthRow]] = {"layer by layer": report.layer_errors, "through all layers": report.depths}
    found: dict[str, dict[str, dict[int, float]]] = {}
    for title, rows in kinds.items():
        for row in rows:
            points = found.setdefault(title, {}).setdefault(row.dtype, {})
            points[row.layer] = max(points.get(row.layer, 0.0), row.errors.ours)
    return {title: series for title, series in found.items() if len(report.layers) > 1}


def towers(report: ValidateReport) -> Table:
    """What the tower makes of an image."""
    made = table("tower", "patches", "relative error", "to the reference's", "first wrong", right=("patches",))
    for row in report.towers:
        ratio = "" if row.dtype == "float32" else f"{row.errors.ratio:.2f}"
        made.add_row(row.dtype, str(row.patches), f"{row.errors.ours:.1e}", ratio, f"{row.where} {row.op}".strip())
    return made


def switches(report: ValidateReport) -> Table:
    """What features change."""
    made = table("switched on", "divergence in all layers", "layers that do not bear it", "in these", "in all others")
    for row in report.switches:
        named = ", ".join(map(str, row.layers)) or "none"
        made.add_row(row.feature, f"{row.all:.1e}", named, f"{row.alone:.1e}" if row.layers else "", f"{row.rest:.1e}" if row.layers else "")
    return made


def norms(report: ValidateReport) -> Table:
    """What the head reads of the reference's last stream."""
    made = table("final norm", "relative error", "to the reference's")
    for row in report.norms:
        made.add_row(row.dtype, f"{row.errors.ours:.1e}", "" if row.dtype == "float32" else f"{row.errors.ratio:.2f}")
    return made


def logits(report: ValidateReport) -> Table:
    made = table("logits", "experts", "relative error", "to the reference's", "null", "same best token", "divergence, nats")
    for row in report.logits:
        ratio, null = ("", "") if row.dtype == "float32" else (f"{row.errors.ratio:.2f}", f"{row.errors.null:.2f}")
        best = f"{row.top1:.1%} (reference {row.reference_top1:.1%})"
        divergence = f"{row.divergence:.1e} (reference {row.reference_divergence:.1e})"
        kind = row.dtype + (", an image" if row.part != "logits" else "")
        made.add_row(kind, "forced" if row.forced else "free", f"{row.errors.ours:.1e}", ratio, null, best, divergence)
    return made
