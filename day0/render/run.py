"""The answers of `day0 run` as they come, and what they cost."""

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.console import RenderableType

from day0.render.numbers import seconds, size
from day0.render.table import facts, stack, table, verdict
from day0.spec.reports.run import RunReport
from day0.spec.reports.suite import SuiteScore, by_kind
from day0.spec.request import Output

SHOWN = 8  # operators in the table


class Answers:
    """Writes answers in the order of the prompts: the first that is not finished as it comes, later ones when it is their turn."""

    def __init__(self, prompts: Sequence[str], out: TextIO | None = None) -> None:
        self.prompts, self.out = prompts, out or sys.stdout
        self.waiting = [""] * len(prompts)
        self.done = [False] * len(prompts)
        self.turn = 0
        self._head()

    def hear(self, place: int, output: Output) -> None:
        """Take news of one answer."""
        self.waiting[place] += output.text + (f"[{output.error}]" if output.error else "")
        self.done[place] |= output.finish is not None
        while self.turn < len(self.prompts):
            self._write(self.waiting[self.turn])
            self.waiting[self.turn] = ""
            if not self.done[self.turn]:
                break
            self._write("\n")
            self.turn += 1
            self._head()

    def _head(self) -> None:
        if len(self.prompts) > 1 and self.turn < len(self.prompts):
            self._write(f"{'' if self.turn == 0 else chr(10)}> {self.prompts[self.turn]}\n")

    def _write(self, text: str) -> None:
        if text:
            self.out.write(text)
            self.out.flush()


def speaker(hear: Callable[[int, Output], None]) -> Callable[[int, Output], None]:
    """Writes the answers of a conversation as they come, after `hear` took them."""

    def say(place: int, output: Output) -> None:
        hear(place, output)
        sys.stdout.write(output.text + ("\n" if output.finish else ""))
        sys.stdout.flush()

    return say


def silent(_place: int, _output: Output) -> None:
    """For programs, which read the report."""


def metrics(report: RunReport) -> RenderableType:
    """Verdict, times, memory and operators; the answers themselves went out as they came."""
    times, memory = report.times, report.memory
    count = sum(len(answer.tokens) for answer in report.answers)
    answers = f"{len(report.answers)} answer{'' if len(report.answers) == 1 else 's'}"
    head = f"{report.model} · {answers}, {count} tokens · {report.executor} on {report.device}, {report.dtype}, weights {report.weights}"
    rows = [("load", seconds(times.load))]
    if times.first_token is not None:
        rows.append(("first token", f"{seconds(times.first_token)}   {_rate(times.prefill)} of prompt"))
    if times.decode_p50 is not None and times.decode_p95 is not None:
        rows.append(("decode", f"{seconds(times.decode_p50)} p50 · {seconds(times.decode_p95)} p95   {_rate(times.decode)}"))
    check = report.self_check
    if check is not None:
        compared = f"{check.layers} layers on {check.tokens} tokens, {check.weights} weights"
        rows.append(("self-check", f"{compared}: right, error at most {check.error:.1e}   {seconds(check.seconds)}"))
    rows.append(("memory", f"{size(memory.process_peak)} at the peak, {size(memory.process_before)} before the weights"))
    if memory.read:
        rows.append(("streamed", f"{size(memory.read)} of weights read for each step"))
    if memory.device_peak is not None:
        rows.append(("device", f"{size(memory.device_peak)} at the peak"))
    rows.append(("engine", " · ".join(f"{name} {size(held)}" for name, held in memory.engine.items())))
    shown = _operators(report) if report.operators else None
    return stack(verdict(head, report.verdict == "answered"), facts(rows), shown, suites(report.suites) if report.suites else None)


def suites(scores: Sequence[SuiteScore]) -> RenderableType:
    """Right answers of each kind, by each that was asked."""
    shown = table("right answers", *(score.by for score in scores), right=tuple(score.by for score in scores))
    for kind, found in by_kind(scores).items():
        shown.add_row(kind, *(f"{task.right} of {task.questions} ({task.low:.2f}–{task.high:.2f})" if task else "" for task in found))
    return shown


def _rate(tokens: float | None) -> str:
    return "" if tokens is None else f"{tokens:.3g} tokens/s"


def _operators(report: RunReport) -> RenderableType:
    shown = table("operator", "time", "share", right=("time", "share"))
    for row in report.operators[:SHOWN]:
        shown.add_row(row.op, seconds(row.seconds), f"{row.share:.0%}")
    return shown
