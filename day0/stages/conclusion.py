"""What the reports of a chain come to: does the model work on the machine, why not, and what to do next."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from day0.spec.errors import Day0Error
from day0.spec.record import record
from day0.spec.reports import CHAIN
from day0.spec.reports.base import FindingRow, Report
from day0.spec.reports.conclusion import Answer, Conclusion
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.kinds import kinds
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.reports.run import RunReport
from day0.spec.reports.serve import ServeReport
from day0.spec.reports.validate import ValidateReport
from day0.stages.chain import Chain

YES = frozenset({"sound", "fits", "complete", "pass", "answered", "serves"})  # verdicts that let the chain go on
MADE = frozenset({"native", "fused", "compiled-native", "composite"})  # statuses of what a machine's own implementations run
SHOWN = 5  # reasons that are told
OPTIONAL = frozenset({ServeReport.STAGE})  # stages that a model works without


@record
class Reports:
    """The reports of one model on one target, as far as there are any."""

    model: str  # name of its folder of reports
    target: str  # likewise
    inspect: InspectReport | None = None
    plan: PlanMemoryReport | None = None
    mapped: MapOpsReport | None = None
    validated: ValidateReport | None = None
    run: RunReport | None = None
    served: ServeReport | None = None
    refused: Mapping[str, Day0Error]  # stage → why it has no report, or one that cannot be used

    @property
    def stages(self) -> dict[str, Report | None]:
        """Stage → its report, in the order of the chain."""
        return dict(zip(CHAIN, (self.inspect, self.plan, self.mapped, self.validated, self.run, self.served), strict=True))

    @classmethod
    def of(cls, chain: Chain, found: Mapping[str, Report], refused: Mapping[str, Day0Error] | None = None) -> "Reports":
        """From reports by stage."""
        names = dict(zip(CHAIN, ("inspect", "plan", "mapped", "validated", "run", "served"), strict=True))
        fields: dict[str, Any] = {names[stage]: report for stage, report in found.items()}
        return cls(model=chain.model, target=chain.target, refused=refused or {}, **fields)


def gather(chain: Chain, stages: Collection[str] = CHAIN, refused: Mapping[str, Day0Error] | None = None) -> Reports:
    """Those reports of `stages` that are there and still hold, beside what is known of others. Day0Error when there is none."""
    found: dict[str, Report] = {}
    refused = dict(refused or {})
    for stage, kind in kinds().items():
        if stage in CHAIN and stage in stages and chain.has(kind):
            try:
                found[stage] = chain.read(kind)
            except Day0Error as error:
                refused[stage] = error
    if not found:
        raise next(iter(refused.values()), Day0Error("there are no reports", chain.folder, hint="run `day0 adapt MODEL`"))
    return Reports.of(chain, found, refused)


def conclude(reports: Reports) -> Conclusion:
    """One word for all of them: a stage that said no decides, then one that is missing, then what falls back."""
    for stage, report in reports.stages.items():
        said = str(getattr(report, "verdict", ""))
        if report is not None and said not in YES:
            return _refusal(stage, report, "not shown to work" if said == "unknown" else "does not work")
    for stage, report in reports.stages.items():
        if report is None and stage not in OPTIONAL:
            return _missing(stage, reports.refused.get(stage))
    found = fallbacks(reports)
    lines = [line for _, line in found]
    remedies = [f"`day0 new kernel {found[0][0]}_NAME` drafts an implementation for this machine"] if found else []
    if reports.run and reports.run.executor == "community":
        lines.insert(0, "the answers are those of transformers, not of day0's engine")
        remedies.insert(0, "run `day0 run --executor native`")
    return Conclusion(answer="works with fallbacks" if lines else "works", stage=None, reasons=_first(lines), remedies=remedies)


def fallbacks(reports: Reports) -> list[tuple[str, str]]:
    """(operator, sentence) for every operator that nothing made for the machine runs, the longest of `run` first."""
    assert reports.mapped is not None
    calls = Counter((site.op, site.status) for site in reports.mapped.sites)
    every = Counter(site.op for site in reports.mapped.sites)
    time = {row.op: row.share for row in reports.run.operators} if reports.run else {}
    found = []
    for (op, status), count in sorted(calls.items(), key=lambda item: -time.get(item[0][0], 0)):
        if status not in MADE:
            share = f", {100 * time[op]:.1f} % of the time" if op in time else ""
            how = "is run by its reference" if status == "reference" else f"is {status}"
            found.append((op, f"{op} {how} in {count} of {every[op]} calls{share}"))
    return found


def findings(report: Report) -> list[FindingRow]:
    """What checks said about it; what a stage says without checks is a finding without a code."""
    rows = [*getattr(report, "findings", ()), *getattr(report, "reasons", ())]
    words = [*getattr(report, "missing", ()), *filter(None, [getattr(report, "failure", "")])]
    words += [answer.error for answer in getattr(report, "answers", ()) if answer.error]
    return rows + [FindingRow(code="", status="fail", subject=report.STAGE, found=text) for text in words]


def reasons(report: Report) -> list[FindingRow]:
    """What made it say no."""
    return [row for row in findings(report) if row.status == "fail"]


def sentence(row: FindingRow) -> str:
    """A finding in one line."""
    code = f"{row.code} " if row.code else ""
    return f"{code}{row.subject}: {row.found}" + (f", expected {row.expected}" if row.expected else "")


def _missing(stage: str, error: Day0Error | None) -> Conclusion:
    command = kinds()[stage].COMMAND
    if error is None:
        return Conclusion(answer="not shown to work", stage=stage, reasons=[f"{stage} has not run"], remedies=[f"run `{command}`"])
    where = f"{error.where}: " if error.where else ""
    return Conclusion(
        answer="not shown to work", stage=stage, reasons=[f"{stage}: {where}{error.problem}"], remedies=[error.hint or f"run `{command}`"]
    )


def _refusal(stage: str, report: Report, answer: Answer) -> Conclusion:
    found = reasons(report)
    told = _first([sentence(row) for row in found])
    hints = list(dict.fromkeys(row.hint for row in found if row.hint))
    codes = list(dict.fromkeys(row.code for row in found if row.code))
    if isinstance(report, ValidateReport):
        told = [report.first_divergence.line, *told] if report.first_divergence else told or ["neither layers nor logits could be compared"]
    return Conclusion(
        answer=answer, stage=stage, reasons=told,
        remedies=hints[:SHOWN] + [f"`day0 explain {code}` tells more" for code in codes[:SHOWN]],
    )  # fmt: skip


def _first(lines: list[str]) -> list[str]:
    """As many as a person reads at once, and how many more there are."""
    return lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"and {len(lines) - SHOWN} more"]
