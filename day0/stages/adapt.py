"""`day0 adapt`: every stage in order, each from the reports before it, until one says no.

Reads a release and a machine. Leaves the reports of the stages that ran.
Exit codes of the command: 0 every stage said yes; 1 one said no; 2 one could not work.
"""

import time
from collections.abc import Callable
from pathlib import Path

from day0.spec.machine import Machine
from day0.spec.progress import Progress, silent
from day0.spec.record import record
from day0.spec.reports.adapt import AdaptReport, StageRow
from day0.spec.reports.base import Report
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.reports.run import RunReport
from day0.spec.workload import Workload
from day0.stages.chain import Chain
from day0.stages.conclusion import YES, Reports, conclude


@record
class Wanted:
    """What the chain is run for."""

    released: Path  #: folder of the model
    machine: Machine  #: to plan for and to run on
    workload: Workload  #: to plan for
    layers: str = "all"  #: that are validated, as `day0 validate --layer` takes them
    question: str = "What is the capital of France?"  #: asked by run, and again over HTTP
    max_new: int = 64  #: tokens of the answer at the most
    serve: bool = True  #: whether the service is started and asked


def adapt(chain: Chain, wanted: Wanted, hear: Callable[[Report, StageRow], None], progress: Progress = silent) -> AdaptReport:
    """Run the chain; `hear` gets each stage's report once it is written."""
    rows: list[StageRow] = []
    reports: dict[str, Report] = {}
    for stage in (_inspect, _plan, _map, _validate, _run, *((_serve,) if wanted.serve else ())):
        start = time.perf_counter()
        report = stage(chain, wanted, progress)
        path, seconds = chain.write(report), time.perf_counter() - start
        said = str(getattr(report, "verdict", ""))
        rows.append(StageRow(stage=report.STAGE, verdict=said, yes=said in YES, path=str(path), seconds=seconds))
        reports[report.STAGE] = report
        hear(report, rows[-1])
        if not rows[-1].yes:
            break
    return AdaptReport(
        verdict="adapted" if rows[-1].yes else "stopped",
        conclusion=conclude(Reports.of(chain, reports)),
        model=chain.model,
        machine=wanted.machine.name,
        question=wanted.question,
        answer=chain.read(RunReport).answers[0].text if any(row.stage == RunReport.STAGE for row in rows) else None,
        stages=rows,
    )


# Stages are imported when they are reached: what is wrong with a folder or a plan is said before torch is loaded.


def _inspect(chain: Chain, wanted: Wanted, progress: Progress) -> Report:
    from day0.stages.inspect import inspect

    return inspect(wanted.released, kept=chain.kept, progress=progress)


def _plan(chain: Chain, wanted: Wanted, _progress: Progress) -> Report:
    from day0.stages.plan_memory import plan_memory

    return plan_memory(chain.read(InspectReport), wanted.machine, wanted.workload)


def _map(chain: Chain, wanted: Wanted, _progress: Progress) -> Report:
    from day0.stages.map_ops import map_ops

    return map_ops(chain.read(InspectReport), chain.read(PlanMemoryReport), wanted.machine)


def _validate(chain: Chain, wanted: Wanted, progress: Progress) -> Report:
    from day0.stages.validate import validate

    inspected, plan, mapped = chain.read(InspectReport), chain.read(PlanMemoryReport), chain.read(MapOpsReport)
    return validate(inspected, plan, mapped, layers=wanted.layers, progress=progress)


def _run(chain: Chain, wanted: Wanted, progress: Progress) -> Report:
    from day0.spec.request import Sampling
    from day0.stages.opening import open_chain
    from day0.stages.prompt import Reader
    from day0.stages.run import Examination, run
    from day0.stages.suite import beside, read_suite

    opening = open_chain(chain, "native")
    prompt = Reader(opening.tokenizer, opening.context, max_new=wanted.max_new).read(wanted.question)
    file, examination = beside(wanted.released), None
    if file is not None:
        examination = Examination(file=file, suite=read_suite(file), reference=open_chain(chain, "community"), progress=progress)
    return run(opening.start(profile=True, progress=progress), [[prompt]], Sampling(), (), lambda _place, _output: None, examination)


def _serve(chain: Chain, wanted: Wanted, progress: Progress) -> Report:
    from day0.stages.rehearsal import rehearse

    return rehearse(chain, wanted.question, wanted.max_new, progress)
