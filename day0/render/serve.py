"""A service: where it is when it is ready, and what it did when it ends."""

from rich.console import RenderableType

from day0.render.numbers import seconds, size, tokens
from day0.render.table import facts, stack, verdict
from day0.spec.reports.serve import Latency, ServeReport


def greeting(report: ServeReport) -> RenderableType:
    """What a person needs to ask the model something."""
    sampling = report.defaults
    drawn = f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}, top-k {sampling.top_k or 'all'}"
    rows = [
        ("takes", f"{tokens(report.limits.context)} tokens a sequence, {report.limits.batch} at once, {report.limits.requests} in all"),
        ("ends at", ", ".join(f"{end.text} ({end.source})" for end in report.ends) or "the length alone"),
        ("default", "greedy" if sampling.temperature == 0 else drawn),
        ("key", "required" if report.guarded else "none"),
        ("loaded in", f"{seconds(report.load)}   {_held(report)}"),
    ]
    return stack(verdict(f"{report.model} on {report.url}/v1", True), facts(rows))


def farewell(report: ServeReport) -> RenderableType:
    """What was answered, and how fast."""
    ended, good = report.requests, report.verdict == "serves"
    answered = ended.stop + ended.length
    head = f"{report.model} · {answered} answers in {seconds(report.uptime)}" if good else f"{report.model} failed: {report.failure}"
    rows = [
        ("requests", f"{answered} answered · {ended.cancelled} left · {ended.error} failed · {report.rejected} turned away"),
        ("tokens", f"{report.prompt_tokens} read · {report.generated_tokens} generated"),
        ("first token", _span(report.first_token)),
        ("answer", _span(report.answer)),
        ("memory", _held(report)),
    ]
    return stack(verdict(head, good), facts(rows))


def _span(latency: Latency) -> str:
    if latency.p50 is None or latency.p95 is None:
        return "none"
    return f"{seconds(latency.p50)} p50 · {seconds(latency.p95)} p95"


def _held(report: ServeReport) -> str:
    return " · ".join(f"{name} {size(held)}" for name, held in report.memory.engine.items())
