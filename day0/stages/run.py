"""`day0 run`: prompts in, tokens out, with times, memory and the time of each operator.

Obeys plan-memory.yaml and map-ops.yaml. Leaves run.yaml.
Exit codes of the command: 0 every prompt was answered; 1 an answer failed, or the self-check found something wrong; 2 it could not run
(empty prompt, prompt beyond the plan).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from day0.spec.errors import Day0Error
from day0.spec.progress import Progress, silent
from day0.spec.record import record
from day0.spec.reports.base import Provenance, file_input
from day0.spec.reports.run import RunReport, SamplingRow, SelfCheck
from day0.spec.reports.suite import SuiteScore
from day0.spec.request import Sampling
from day0.spec.suite import Suite
from day0.stages.answers import Listener, answer
from day0.stages.meter import Meter
from day0.stages.opening import Opened, Opening
from day0.stages.prompt import EXAMPLE, Prompt
from day0.stages.suite import examine

Check = Callable[[Opened, Sequence[int]], SelfCheck]


@record
class Examination:
    """A suite to be asked after the prompts."""

    file: Path  #: with the questions
    suite: Suite  #: what it says
    reference: Opening | None = None  #: what else is asked
    progress: Progress = silent  #: told how far it is


def run(
    opened: Opened, batches: Iterable[Sequence[Prompt]], sampling: Sampling, stop: Sequence[str], hear: Listener,
    examination: Examination | None = None, check: Check | None = None,
) -> RunReport:  # fmt: skip
    """Answer the prompts of each batch together, one batch after the other; `hear` is told as it happens.

    `check` is given the tokens of the first prompt, before anything is answered.
    """
    found = None
    if check is not None:
        batches = iter(batches)
        first = next(batches, None)
        if not first:
            raise Day0Error("there is no prompt to check with", hint="give one beside --self-check")
        found, batches = check(opened, first[0].tokens), chain([first], batches)
    meter = Meter(opened)
    answers = [one for prompts in batches for one in answer(opened, prompts, sampling, stop, hear, meter)]
    times, memory, operators = meter.times(), meter.memory(), meter.operators()
    suites = _examine(opened, examination) if examination else []
    if not answers and not suites:
        raise Day0Error("nothing was asked", hint=EXAMPLE)
    opening = opened.opening
    return RunReport(
        verdict="failed" if any(answer.finish == "error" for answer in answers) else "answered",
        model=opening.model,
        machine=opening.machine,
        executor=opening.executor,
        device=str(opening.device),
        dtype=opening.dtype,
        weights=opening.weights,
        sampling=SamplingRow.model_validate({name: getattr(sampling, name) for name in SamplingRow.model_fields}),
        answers=answers,
        times=times,
        memory=memory,
        operators=operators,
        suites=suites,
        self_check=found,
        provenance=Provenance(inputs=[file_input(examination.file)] if examination else []),
    )


def _examine(opened: Opened, wanted: Examination) -> list[SuiteScore]:
    """What this executor scored, then the reference, then what the suite says of others."""
    found = [examine(opened, wanted.file, wanted.suite, wanted.progress)]
    if wanted.reference is not None:
        found.append(examine(wanted.reference.start(), wanted.file, wanted.suite, wanted.progress))
    return [*found, *wanted.suite.measured]
