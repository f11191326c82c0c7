"""From evidence to a verdict: every check on every piece of evidence of its kind, and the first thing that is wrong."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Literal

from day0.spec.check import Check
from day0.spec.evidence import (
    RUNGS,
    Evidence,
    HeldEvidence,
    LayerEvidence,
    OperatorEvidence,
    PositionsEvidence,
    ReadsEvidence,
    ReferencesEvidence,
    ReusedEvidence,
    RotaryEvidence,
    Rung,
    SelectionEvidence,
    StateEvidence,
    Uncompared,
    WeightEvidence,
)
from day0.spec.finding import Finding
from day0.spec.model import Model
from day0.spec.registry import checks
from day0.spec.reports.base import FindingRow
from day0.spec.reports.validate import Answer, Divergence, RungRow
from day0.spec.whole_evidence import ModelEvidence, NormEvidence, ServiceEvidence, SwitchEvidence, TowerEvidence
from day0.stages.divergence import divergence

KINDS: dict[str, tuple[type[Evidence], Rung]] = {
    "weight": (WeightEvidence, "weights"), "operator": (OperatorEvidence, "operators"), "layer": (LayerEvidence, "layers"),
    "selection": (SelectionEvidence, "layers"), "rotary": (RotaryEvidence, "layers"), "reads": (ReadsEvidence, "layers"),
    "held": (HeldEvidence, "weights"), "reused": (ReusedEvidence, "layers"), "state": (StateEvidence, "layers"),
    "positions": (PositionsEvidence, "layers"), "references": (ReferencesEvidence, "layers"), "norm": (NormEvidence, "model"),
    "logits": (ModelEvidence, "model"), "uncompared": (Uncompared, "model"), "service": (ServiceEvidence, "service"),
    "switch": (SwitchEvidence, "model"), "tower": (TowerEvidence, "model"),
}  # fmt: skip
PARTS = (  # in the order in which a pass meets them
    "embed", "rotary", "positions", "reads", "state", "mixer", "router", "ffn", "residual", "norm", "head", "tower", "logits",
)  # fmt: skip
EACH = 20  # findings of one check that are told one by one


class Verdict:
    """What the checks said about the evidence so far."""

    def __init__(self) -> None:
        self._failed: list[tuple[tuple[int, float, int], Rung, Evidence, Finding]] = []
        self._told: dict[str, list[Finding]] = {}
        self._judged: Counter[str] = Counter()
        self._seen: list[Evidence] = []
        self.rungs: list[RungRow] = []

    def rung(self, name: Rung, evidence: Iterable[Evidence], seconds: float) -> None:
        """Judge all that was measured on one rung."""
        before, failed = sum(self._judged.values()), len(self._failed)
        for one in evidence:
            self._seen.append(one)
            self._judge(one)
        judged = sum(self._judged.values()) - before
        verdict: Literal["pass", "fail", "not run"] = "fail" if len(self._failed) > failed else "pass" if judged else "not run"
        self.rungs.append(RungRow(name=name, verdict=verdict, checks=judged, seconds=round(seconds, 3)))

    def answer(self, compared: bool, whole: bool = True) -> Answer:
        """Fail when anything did; unknown when layers, logits or answers were to be compared and none was, or when it is not the `whole` of it."""
        if self._failed:
            return "fail"
        if not whole:
            return "unknown"
        rungs = {rung.name: rung.verdict for rung in self.rungs}
        return "unknown" if compared and {rungs[name] for name in ("layers", "model", "service") if name in rungs} == {"not run"} else "pass"

    def first(self, model: Model) -> Divergence | None:
        """The lowest rung with a failure, there the first layer, there the first part."""
        if not self._failed:
            return None
        _, rung, evidence, finding = min(self._failed, key=lambda entry: entry[0])
        return divergence(model, rung, evidence, finding, [entry[3] for entry in self._failed], self._seen)

    def findings(self) -> list[FindingRow]:
        """What failed, in order; then warnings and what could not be judged; then one pass for each check that had nothing to say."""
        rows = [finding for told in self._told.values() for finding in told[:EACH]]
        for code, told in self._told.items():
            if len(told) > EACH:
                rows.append(Finding(code=code, status=told[-1].status, subject=f"{len(told) - EACH} more", found="of the same kind"))
        order = {"fail": 0, "warn": 1, "unknown": 2, "pass": 3}
        quiet = {code: count for code, count in self._judged.items() if count and code not in self._told}
        rows += [Finding(code=code, status="pass", subject=f"{count} measurements") for code, count in quiet.items()]
        return [FindingRow.model_validate(asdict(row)) for row in sorted(rows, key=lambda row: (order[row.status], row.code))]

    def _judge(self, evidence: Evidence) -> None:
        for check in judges(evidence):
            rung = evidence.rung if isinstance(evidence, Uncompared) else KINDS[check.scope][1]
            self._judged[check.code] += check.scope != "uncompared"
            for finding in check.run(evidence):
                self._told.setdefault(check.code, []).append(finding)
                if finding.status == "fail":
                    self._failed.append((_place(rung, evidence), rung, evidence, finding))


def judges(evidence: Evidence) -> Iterator[Check]:
    """The checks that look at this kind of evidence."""
    for _, check in checks().items():
        if check.scope in KINDS and isinstance(evidence, KINDS[check.scope][0]):
            yield check


def fails(evidence: Evidence) -> bool:
    """Whether any check says so."""
    return any(finding.status == "fail" for check in judges(evidence) for finding in check.run(evidence))


def _place(rung: Rung, evidence: Evidence) -> tuple[int, float, int]:
    part = PARTS.index(evidence.part) if evidence.part in PARTS else len(PARTS)
    outside = -1.0 if evidence.part == "embed" else float("inf")
    return RUNGS.index(rung), outside if evidence.layer is None else evidence.layer, part
