"""`day0 adapt`: every stage in order, each from the reports before it, until one says no.

Reads a release and a machine. Leaves the reports of all stages that ran.
Exit codes of the command: 0 every stage said yes; 1 one said no; 2 one could not work.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from day0.spec.machine import Machine
from day0.spec.progress import Progress, silent
from day0.spec.record import record
from day0.spec.reports.base import Report
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.workload import Workload
from day0.stages.chain import Chain

YES = {"sound", "fits", "complete", "pass", "answered", "serves"}  # verdicts that let the chain go on


@record
class Wanted:
    """What the chain is run for."""

    released: Path  #: folder of the model
    machine: Machine  #: to plan for and to run on
    workload: Workload  #: to plan for
    layers: str = "all"  #: that are validated, as `day0 validate --layer` takes them
    question: str = "What is the capital of France?"  #: asked by run and over HTTP
    serve: bool = True  #: whether the service is started and asked


def adapt(chain: Chain, wanted: Wanted, progress: Progress = silent) -> Iterator[Report]:
    """Each stage's report once it is written; the last one says no, or there is none left."""
    stages: list[Callable[[Chain, Wanted, Progress], Report]] = [_inspect, _plan, _map, _validate, _run, *([_serve] if wanted.serve else [])]
    for stage in stages:
        report = stage(chain, wanted, progress)
        chain.write(report)
        yield report
        if not says_yes(report):
            return


def says_yes(report: Report) -> bool:
    """Whether the stage's answer lets the chain go on."""
    return getattr(report, "verdict", "") in YES


def _inspect(_chain: Chain, wanted: Wanted, _progress: Progress) -> Report:
    from day0.stages.inspect import inspect

    return inspect(wanted.released)


def _plan(chain: Chain, wanted: Wanted, _progress: Progress) -> Report:
    from day0.stages.plan_memory import plan_memory

    return plan_memory(chain.read(InspectReport), wanted.machine, wanted.workload)


def _map(chain: Chain, wanted: Wanted, _progress: Progress) -> Report:
    from day0.stages.map_ops import map_ops

    return map_ops(chain.read(InspectReport), chain.read(PlanMemoryReport), wanted.machine)


def _validate(chain: Chain, wanted: Wanted, progress: Progress) -> Report:
    from day0.stages.validate import validate

    reports = chain.read(InspectReport), chain.read(PlanMemoryReport), chain.read(MapOpsReport)
    return validate(*reports, layers=wanted.layers)


def _run(chain: Chain, wanted: Wanted, progress: Progress) -> Report:
    from day0.spec.request import Sampling
    from day0.stages.opening import Opening
    from day0.stages.prompt import Reader
    from day0.stages.run import run

    opening = Opening.of(chain)
    prompt = Reader(opening.tokenizer, opening.plan.workload.context, max_new=64).read(wanted.question)
    return run(opening.start(profile=True, progress=progress), [[prompt]], Sampling(), (), lambda _place, _output: None)
