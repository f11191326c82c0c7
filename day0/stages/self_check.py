"""Before a run answers: its own weights and layers next to the same layers on weights that were read and decoded another way."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from day0.community.compare_run import compare_run
from day0.spec.errors import Day0Error, Refused
from day0.spec.evidence import Evidence, HeldEvidence, LayerEvidence
from day0.spec.finding import Finding
from day0.spec.progress import Progress
from day0.spec.reports.run import SelfCheck
from day0.stages.opening import Opened, Planned
from day0.stages.verdict import judges

TOKENS = 16  # of the prompt: its first ones
RATIO = "D0702"  # to the error of the reference in the same type, over more tokens than these
LIMIT, ROW, UNEVEN = 3.0, 8.0, 3.0  # twice what it allows


def self_check(opened: Opened, tokens: Sequence[int], progress: Progress) -> SelfCheck:
    """What was compared; Refused at the first thing that is wrong."""
    opening, engine = opened.opening, opened.engine
    if not isinstance(opening, Planned):
        raise Day0Error("the community executor has no path of weights of its own", hint="leave out --self-check")
    start, seen, ids = time.perf_counter(), list[Evidence](), list(tokens[:TOKENS])
    ids = [0 if token in opening.release.model.placeholders else token for token in ids]
    weights = engine.forward.weights  # type: ignore[attr-defined]
    for one in compare_run(opening.release, opening.mapped, opening.dtype, weights, ids, progress):
        seen.append(one)
        _require(one, opening)
    parts = [one.errors for one in seen if isinstance(one, LayerEvidence)]
    return SelfCheck(
        tokens=len(ids), layers=len({one.layer for one in seen if isinstance(one, LayerEvidence)}), parts=len(parts),
        weights=sum(isinstance(one, HeldEvidence) for one in seen), error=max(errors.ours for errors in parts),
        seconds=round(time.perf_counter() - start, 3),
    )  # fmt: skip


def _require(evidence: Evidence, opening: Planned) -> None:
    wrong = next(_wrong(evidence), None)
    if wrong is None:
        return
    layer = "" if evidence.layer is None else f" --layer {evidence.layer}"
    raise Refused(
        f"{wrong.subject}: {wrong.found}; expected {wrong.expected} ({wrong.code}, weights {opening.weights}); nothing was answered",
        "self-check", hint=f"day0 explain {wrong.code}; day0 validate{layer} looks closer",
    )  # fmt: skip


def _wrong(evidence: Evidence) -> Iterator[Finding]:
    """What the checks of validate say; of ratios only what few tokens can tell."""
    for check in judges(evidence):
        for finding in check.run(evidence):
            if not isinstance(evidence, LayerEvidence) or check.code != RATIO:
                yield finding
                continue
            x = evidence.errors
            row = max(ROW, UNEVEN * x.reference_row)
            if not (x.ratio <= LIMIT and x.row_ratio <= row):
                yield replace(finding, expected=f"at most {LIMIT:g}, row {row:.3g}")
