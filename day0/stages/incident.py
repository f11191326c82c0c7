"""Incidents of a running engine: each becomes a bundle that `day0 replay` answers again."""

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from day0.spec.errors import Day0Error
from day0.spec.record import record
from day0.spec.reports.incident import ChosenRow, IncidentReport, RequestRow
from day0.spec.reports.run import SamplingRow
from day0.spec.request import Output

if TYPE_CHECKING:
    from day0.engine.batch import Engine
    from day0.engine.ring import Chosen, Entry
    from day0.stages.opening import Planned

KEPT = 64  # bundles of one process; the newest replace the oldest
FAILED = "the engine failed: "  # begins the reason of a bundle that an exception left
ASKED = "asked for"  # reason of a bundle that is of no failure
PROMPT = 1 << 16  # tokens of a prompt that are kept


@record
class Incidents:
    """Where bundles go, and of what."""

    folder: Path  #: made when it is needed
    every: bool = False  #: of each answered request, not only of failures
    tell: Callable[[str], None] = lambda _said: None  #: hears of bundles of failures, and of those that could not be written


class Recorded:
    """An engine that leaves a bundle where a request fails, or where its own step does."""

    def __init__(self, engine: "Engine", opening: "Planned", incidents: Incidents) -> None:
        self.engine, self.written = engine, list[Path]()
        self._opening, self._incidents = opening, incidents

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def step(self) -> Sequence[Output]:
        """As the engine's; nothing that happens while a bundle is written reaches those who wait for answers."""
        try:
            outputs = self.engine.step()
        except Exception as error:
            entries = [entry for entry in self.engine.ring.entries if entry.finish is None]
            if entries:
                self._write(entries[0], f"{FAILED}{type(error).__name__}: {error}")
            raise
        for output in outputs:
            if output.finish == "error" or (output.finish and self._incidents.every):
                entry = self.engine.ring.find(output.id)
                assert entry is not None
                self._write(entry, output.error or ASKED)
        return outputs

    def _write(self, entry: "Entry", reason: str) -> None:
        path = self._incidents.folder / f"incident-{len(self.written) % KEPT}.yaml"
        try:
            bundle(self._opening, self.engine, entry, reason).write(path)
        except OSError as error:
            self._incidents.tell(f"no replay bundle: {path}: {error.strerror}")
            return
        self.written.append(path)
        if reason != ASKED:
            self._incidents.tell(f"{reason}; to answer it again: day0 replay {path}")


def bundle(opening: "Planned", engine: "Engine", entry: "Entry", reason: str) -> IncidentReport:
    """Everything about one request."""
    report = IncidentReport(
        reason=reason, subject=entry.serial, model=opening.model, dtype=opening.dtype, weights=opening.plan.workload.weights,
        requests=[_row(one) for one in engine.ring.around(entry)], plan=opening.plan, mapped=opening.mapped,
    )  # fmt: skip
    report.provenance.inputs = list(opening.release.checkpoint.inputs())
    return report


def _row(entry: "Entry") -> RequestRow:
    asked, sampling = entry.request, entry.request.sampling
    fields = {name: getattr(sampling, name) for name in SamplingRow.model_fields}
    return RequestRow(
        serial=entry.serial, arrived=entry.arrived, prompt=list(asked.tokens) if len(asked.tokens) <= PROMPT else None,
        prompt_sha256=hashlib.sha256(",".join(map(str, asked.tokens)).encode()).hexdigest(), prompt_tokens=len(asked.tokens),
        images=len(asked.images), max_new=asked.max_new, min_new=asked.min_new, stop=list(asked.stop),
        stop_tokens=sorted(asked.stop_tokens), sampling=SamplingRow(**(fields | {"seed": entry.seed})),
        logit_bias=list(sampling.logit_bias), tokens=list(entry.tokens), chosen=[_chosen(one) for one in entry.chosen],
        finish=entry.finish, error=entry.error,
    )  # fmt: skip


def _chosen(one: "Chosen") -> ChosenRow:
    top = [(token, value) for token, value in one.top if math.isfinite(value)]
    margin = top[0][1] - top[1][1] if len(top) == len(one.top) > 1 else None
    return ChosenRow(place=one.place, step=one.step, top=top, margin=margin, batch=one.batch, experts=one.experts)


def require_kept(row: RequestRow) -> list[int]:
    """The prompt of a recorded request; Day0Error where it cannot be asked again."""
    if row.prompt is None:
        raise Day0Error(f"the prompt of request {row.serial} has {row.prompt_tokens} tokens, which were too many to keep")
    if row.images:
        raise Day0Error(f"request {row.serial} was about images, which a bundle does not keep")
    return row.prompt
