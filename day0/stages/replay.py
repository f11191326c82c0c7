"""`day0 replay`: a request that went wrong, answered again: alone, and in the company it was in.

Reads a bundle that `run` or `serve` left, and the weights. Leaves replay-incident-N.yaml beside it.
Exit codes of the command: 0 nothing is wrong with the computation (a near tie, or the same answer every time); 1 a numeric fault, a result
that depends on the company, or one that does not come again; 2 it could not be replayed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from day0.engine.guard import Fault, FaultWatch
from day0.spec.errors import Day0Error
from day0.spec.ops import ROUNDOFF
from day0.spec.progress import Progress, silent
from day0.spec.reports.base import Input
from day0.spec.reports.incident import ChosenRow, IncidentReport, RequestRow
from day0.spec.reports.replay import FaultRow, Kind, ReplayReport
from day0.spec.request import Request, Sampling
from day0.stages.incident import FAILED, require_kept
from day0.stages.opening import Planned, planned
from day0.stages.trace_diff import explained


@dataclass
class Attempt:
    """What came of answering again."""

    tokens: list[int] = field(default_factory=list)
    chosen: list[ChosenRow] = field(default_factory=list)
    failed: bool = False  # it ended with an error
    raised: str = ""  # what ended the engine itself
    fault: Fault | None = None


@dataclass(frozen=True)
class Difference:
    """The first place at which an attempt left the record."""

    place: int
    margin: float | None  # on record
    moved: float | None  # largest change of a recorded best logit; None where it is not on record or not finite
    explained: float | None  # what rounding explains

    @property
    def small(self) -> bool:
        """Whether rounding explains it."""
        return self.moved is not None and self.explained is not None and self.moved <= self.explained


def replay(incident: IncidentReport, progress: Progress = silent) -> ReplayReport:
    """Answer it twice, and say what it was."""
    subject = next(row for row in incident.requests if row.serial == incident.subject)
    opening = planned(incident.plan, incident.mapped)
    require_same(opening, incident.provenance.inputs)
    for row in incident.requests:
        require_kept(row)
    watch = FaultWatch()
    engine = opening.start(progress=progress, wraps=(watch,)).engine
    alone = attempt(engine, [subject], subject, watch)
    company = [row for row in incident.requests if row.serial != subject.serial]
    if alone.raised and company:
        engine = opening.start(progress=progress, wraps=(watch,)).engine
    together = attempt(engine, incident.requests, subject, watch) if company else alone
    unit = ROUNDOFF[incident.dtype]
    verdict, difference, fault = classify(subject, alone, together, unit, incident.reason.startswith(FAILED))
    return ReplayReport(
        verdict=verdict, line=_line(verdict, difference, fault, len(company), alone.raised or together.raised), model=incident.model,
        reason=incident.reason, neighbours=len(company), recorded=subject.tokens, alone=alone.tokens, together=together.tokens,
        place=difference.place if difference else None, margin=difference.margin if difference else None,
        moved=difference.moved if difference else None, explained=difference.explained if difference else None,
        fault=FaultRow(layer=fault.layer, place=fault.place, phase=fault.phase, op=fault.op, given=fault.given) if fault else None,
    )  # fmt: skip


def require_same(opening: Planned, inputs: Sequence[Input]) -> None:
    """Day0Error where the release is not the one that was asked."""
    recorded = {Path(entry.path).name: entry.sha256 for entry in inputs}
    for entry in opening.release.checkpoint.inputs():
        if recorded.get(Path(entry.path).name) != entry.sha256:
            raise Day0Error("the release has changed since the bundle was written", entry.path, hint="replay with the release that was asked")


def attempt(engine: Any, rows: Sequence[RequestRow], subject: RequestRow, watch: FaultWatch) -> Attempt:
    """Ask again, each request as many passes after the first as it came; until the subject's answer ends."""
    made, waiting, first = Attempt(), list(rows), engine.ring.steps
    offset, cut = min(row.arrived for row in rows), {str(row.serial): len(row.tokens) for row in rows if row.finish == "cancelled"}
    watch.first, name = None, str(subject.serial)
    counts = dict.fromkeys((str(row.serial) for row in rows), 0)
    while True:
        while waiting and (waiting[0].arrived - offset <= engine.ring.steps - first or not engine.busy):
            engine.add(_request(waiting.pop(0)))
        try:
            outputs = engine.step()
        except Exception as error:  # whatever a kernel raises: it is what the replay is about
            made.raised, made.fault = f"{type(error).__name__}: {error}", made.fault or watch.first
            return made
        made.fault = made.fault or watch.first
        for output in outputs:
            counts[output.id] += len(output.tokens)
            if output.id in cut and counts[output.id] >= cut[output.id] and not output.finish:
                engine.cancel(output.id)
        news = next((output for output in outputs if output.id == name), None)
        if news and news.finish:
            break
    entry = engine.ring.find(name)
    made.tokens, made.failed = list(entry.tokens), entry.finish == "error"
    made.chosen = [ChosenRow(place=c.place, step=c.step, top=c.top, margin=None, batch=[], experts=[]) for c in entry.chosen]
    _empty(engine)
    return made


def classify(
    subject: RequestRow, alone: Attempt, together: Attempt, unit: float, raised: bool = False
) -> tuple[Kind, Difference | None, Fault | None]:  # fmt: skip
    """(what it was, where an attempt left the record, where numbers broke).

    `unit` is the roundoff of the compute type; `raised`: whether it was the engine itself that failed.
    """
    if alone.fault:
        return "numeric fault", None, alone.fault
    if alone.raised or together.raised:
        return "engine failure" if alone.raised else "batch-dependent", None, together.fault
    if raised:
        return "not reproduced", None, None
    if together.failed and together.fault:  # not one of its neighbours' alone
        return "batch-dependent", None, together.fault
    apart, again = (difference(subject, made, unit) for made in (alone, together))
    first = again or apart
    if first is None:
        return "reproduced", None, None
    if first.small:
        return "near-tie flip", first, None
    if apart is None or again is None:
        return "batch-dependent", first, None
    return ("near-tie flip", apart, None) if apart.small else ("not reproduced", first, None)


def difference(subject: RequestRow, made: Attempt, unit: float) -> Difference | None:
    """Where the answer left the record; None where it did not."""
    recorded, tokens = ([*tokens, *([-1] if failed else [])] for tokens, failed in (
        (subject.tokens, subject.finish == "error"), (made.tokens, made.failed)))  # fmt: skip
    if subject.finish in (None, "cancelled"):  # it was cut off
        tokens = tokens[: len(recorded)]
    place = next((i for i, (a, b) in enumerate(zip(recorded, tokens, strict=False)) if a != b), min(len(recorded), len(tokens)))
    if place == len(recorded) == len(tokens):
        return None
    old, new = (next((one for one in chosen if one.place == place), None) for chosen in (subject.chosen, made.chosen))
    before, after = (dict(one.top) if one else {} for one in (old, new))
    both = [token for token in before if token in after and math.isfinite(before[token]) and math.isfinite(after[token])]
    moved = max((abs(before[token] - after[token]) for token in both), default=None)
    limit = explained(unit) * max(abs(before[token]) for token in both) if both else None
    return Difference(place, old.margin if old else None, moved, limit)


def _request(row: RequestRow) -> Request:
    sampling = Sampling(**row.sampling.model_dump(), logit_bias=tuple(row.logit_bias))
    return Request(
        id=str(row.serial), tokens=tuple(require_kept(row)), max_new=row.max_new, sampling=sampling, stop=tuple(row.stop),
        stop_tokens=frozenset(row.stop_tokens), min_new=row.min_new,
    )  # fmt: skip


def _empty(engine: Any) -> None:
    """End what is still in flight."""
    for entry in list(engine.ring.entries):
        if entry.finish is None:
            engine.cancel(entry.request.id)
    while engine.busy:
        engine.step()


def _line(verdict: Kind, apart: Difference | None, fault: Fault | None, company: int, raised: str) -> str:
    """The verdict in words."""
    words: list[str] = [verdict, raised] if raised else [verdict]
    if fault:
        layer = f"layer {fault.layer} " if fault.layer is not None else ""
        words.append(f"at {layer}{fault.place} {fault.op} ({fault.phase})".replace("  ", " "))
        words.append("which is given broken weights or state" if fault.given else "whose arguments are finite")
    if verdict == "batch-dependent":
        words.append(f"it depends on the {company} requests beside it")
    if apart:
        words.append(f"first at token {apart.place} of the answer")
        if apart.margin is not None:
            words.append(f"where the best two logits were {apart.margin:.2g} apart")
        if apart.moved is not None:
            words.append(f"logits moved by {apart.moved:.2g}, of which rounding explains {apart.explained:.2g}")
    if verdict == "reproduced":
        words.append("the same answer alone and in company, every result finite; `day0 validate` compares it with the reference")
    return ": ".join([words[0], ", ".join(words[1:])]) if len(words) > 1 else verdict
