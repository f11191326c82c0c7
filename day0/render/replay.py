"""A replayed incident as a person reads it."""

from rich.console import RenderableType

from day0.render.table import facts, stack, verdict
from day0.spec.reports.replay import ReplayReport

SHOWN = 16  # tokens of an answer


def replay(report: ReplayReport) -> RenderableType:
    """The verdict, then the answers side by side from where they part."""
    start = max(0, (report.place or 0) - 2)
    rows = [("written because", report.reason), ("beside it", f"{report.neighbours} requests")]
    for name, tokens in (("recorded", report.recorded), ("alone", report.alone), ("together", report.together)):
        shown = ["…"] * bool(start) + [str(token) for token in tokens[start : start + SHOWN]] + ["…"] * (len(tokens) > start + SHOWN)
        rows.append((name, " ".join(shown)))
    return stack(verdict(f"{report.model}: {report.line}", report.verdict in ("near-tie flip", "reproduced")), facts(rows))
