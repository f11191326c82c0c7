"""The chain as it goes: one line a stage, the verdict at the end."""

from collections.abc import Callable
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from day0.render.numbers import count, seconds, size, tokens
from day0.render.table import mark, stack, verdict
from day0.spec.reports.adapt import AdaptReport, StageRow
from day0.spec.reports.base import Report
from day0.stages.conclusion import reasons, sentence

SHOWN = 5  # reasons of a no
GOOD = {"works": True, "works with fallbacks": None, "not shown to work": None, "does not work": False}


def line(report: Report, row: StageRow) -> Text:
    """One stage's answer."""
    said = SUMMARIES[row.stage](report)
    time = f"   {seconds(row.seconds)}", "dim"
    return Text.assemble(mark("pass" if row.yes else "fail"), f" {row.stage:<15} {row.verdict:<13} {said}", time)


def why(report: Report) -> RenderableType:
    """Reasons of a no, the first few."""
    told = [sentence(row) for row in reasons(report)]
    more = [f"and {len(told) - SHOWN} more"] if len(told) > SHOWN else []
    return stack(*(Text(f"  {text}") for text in told[:SHOWN] + more))


def adapt(report: AdaptReport) -> RenderableType:
    """The verdict in one word, why, what to do, and what the model said."""
    found, last = report.conclusion, report.stages[-1]
    where = f"on {report.machine}" if report.verdict == "adapted" else f"on {report.machine}: it stops at {last.stage}, {last.verdict}"
    head = verdict(f"{report.model} {found.answer} {where}", GOOD[found.answer])
    why = [Text(f"  {line}") for line in found.reasons] if report.verdict == "adapted" else []  # a no has been explained by its stage
    remedies = [Text(f"  {line}", style="dim") for line in found.remedies]
    said = None if report.answer is None else Text(f"> {report.question}\n{report.answer}")
    return stack(Text(), head, *why, *remedies, said)


def _inspect(report: Any) -> str:
    active = "" if report.parameters.active is None else f", {count(report.parameters.active)} active"
    kind = report.model.family or report.model.model_type
    return f"{kind} · {count(report.parameters.total)} parameters{active} · {size(report.bytes.total)}"


def _plan(report: Any) -> str:
    load = report.workload
    return f"{size(report.per_card[0].needed)} a card for {load.batch} × {tokens(load.context)} tokens in {load.dtype}"


def _map(report: Any) -> str:
    return " · ".join(f"{number} {status}" for status, number in report.summary.items())


def _validate(report: Any) -> str:
    first = report.first_divergence
    if first is not None:
        return f"first at {first.rung}, layer {first.layer}, {first.part}: {first.statistic} ({first.code})"
    return f"{len(report.layers)} layers, {sum(row.checks for row in report.rungs)} checks against {report.reference}"


def _run(report: Any) -> str:
    rate = report.times.decode
    said = f"{sum(len(answer.tokens) for answer in report.answers)} tokens" + ("" if rate is None else f", {rate:.3g} a second")
    own = report.suites[0].tasks if report.suites else []
    return said + (f" · {sum(task.right for task in own)} of {sum(task.questions for task in own)} questions right" if own else "")


def _serve(report: Any) -> str:
    return f"answered over HTTP at {report.url}"


SUMMARIES: dict[str, Callable[[Any], str]] = {
    "inspect": _inspect,
    "plan-memory": _plan,
    "map-ops": _map,
    "validate-layer": _validate,
    "run": _run,
    "serve": _serve,
}
