"""How often a release answers a suite rightly, in float32, through day0's engine and through transformers with decoded weights."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from day0.render import console
from day0.render.run import suites
from day0.spec.reports.suite import SuiteScore
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.opening import Opening, planned
from day0.stages.plan_memory import plan_memory
from day0.stages.suite import examine, read_suite

CONTEXT, BATCH = 256, 16


def measure(folder: Path, suite: Path, name: str) -> Iterator[SuiteScore]:
    """By day0's engine, then by transformers; `name` is the model's in the scores."""
    inspected, machine, questions = inspect(folder), find_machine("cpu"), read_suite(suite)
    plan = plan_memory(inspected, machine, Workload(context=CONTEXT, batch=BATCH, dtype="float32", vision=True))
    ours = planned(plan, map_ops(inspected, plan, machine))
    theirs = Opening(folder=folder, model=ours.model, machine="cpu", backend_name="cpu", dtype="float32", context=CONTEXT, sees=True)
    for opening in (ours, theirs):
        score = examine(opening.start(), suite, questions)
        yield score.model_copy(update={"by": f"{name}, {score.by}", "suite": "", "sha256": "", "wrong": [], "seconds": None})


def show(scores: Sequence[SuiteScore]) -> None:
    """One row for each kind of question."""
    console.draw(suites(scores))
