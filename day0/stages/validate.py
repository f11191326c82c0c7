"""`day0 validate`: is it numerically right, and if not, where is the first thing that is wrong.

Climbs from weights over operators and layers to the model and its service, comparing with transformers in float32 and in the model's
own type. Reads the inspect, plan-memory and map-ops reports and the weights, a layer at a time. Leaves validate-layer.yaml.
Exit codes of the command: 0 pass; 1 something is wrong; 2 it could not be compared: neither a layer nor the logits, though asked; or the
budget was spent before anything wrong was found.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from math import isqrt
from pathlib import Path

import torch

import day0
from day0.checkpoint.source import here
from day0.community.bench import Bench, Opens
from day0.community.compare_held import compare_held
from day0.community.compare_operators import compare_operators
from day0.community.compare_weights import compare_weights
from day0.community.extra import transformers
from day0.community.reach import reach, seen, too_short
from day0.community.skeleton import NoReference
from day0.community.switch import Feature
from day0.engine.heap import return_freed_memory
from day0.engine.probe import Probe
from day0.engine.release import Release
from day0.engine.text import Tokenizer
from day0.spec.dtype import compute_dtype
from day0.spec.errors import Day0Error
from day0.spec.evidence import RUNGS, Evidence, Rung, Uncompared
from day0.spec.progress import Progress, silent
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.reports.validate import ValidateReport
from day0.stages.budget import Budget, Spent
from day0.stages.journal import Journal
from day0.stages.layers import Inputs, Task, compare_all
from day0.stages.map_ops import map_ops
from day0.stages.measured import rows
from day0.stages.opening import planned
from day0.stages.verdict import Verdict
from day0.stages.whole import compare_whole

SHORTEST, LONGEST = 64, 1024  # tokens of the sequence that layers are run on; longer only where attention is bounded further on
COMPUTED: tuple[Rung, ...] = ("operators", "layers", "model")  # rungs that run layers
COMPARED = ("layers", "model", "service")  # rungs that tell whether the model is right
WORK = 2e12  # multiplications that one layer's run may cost
SCORE = 96  # bytes of a card's memory for each score of one attention: references hold several of them in float64, beside much else
TEXT = """A release is a folder of numbers and a promise of what they mean. The numbers are easy to check: they are there or not.
The promise is harder. In 1962 a hyphen was left out of 1 line of guidance code, and 293 seconds after launch the rocket was destroyed.
Ask a model where the Danube ends, how many legs a spider has, or for the 17th prime: (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41,
43, 47, 53, 59). It answers in whole sentences whether or not its rotary tables are right. "Fluency is no evidence", she said; "show me."
def area(radius: float) -> float: return 3.14159 * radius ** 2  # ein Kreis, un cercle, круг, 円
"""


def validate(
    inspected: InspectReport, plan: PlanMemoryReport, mapped: MapOpsReport, *, layers: str = "all", until: Rung = "model",
    dtype: str | None = None, inputs: Inputs = "reference", tokens: int | None = None, progress: Progress = silent,
    only: Sequence[Rung] = (), against: tuple[str, Opens] | None = None, journal: Path | None = None, budget: float | None = None,
    switch: Feature | None = None,
) -> ValidateReport:  # fmt: skip
    """Compare `layers` ("3", "2-5", "all"); the rung "model" is climbed when all layers are compared on the reference's hidden states.

    `only`: rungs that are climbed, instead of all up to `until`. `against`: name of another reference than transformers, and what opens it.
    `journal`: folder in which what is measured is kept until the report is made, for a run that goes on after this one was stopped.
    `switch`: a feature to turn on layer by layer on the rung "model", to find the layers that do not bear it.
    `budget`: minutes after which nothing new is begun; what was not measured is named, and the journal is left for a run that goes on.
    """
    limit = Budget(budget, progress)
    rungs = [rung for rung in RUNGS if rung in only] or list(RUNGS[: RUNGS.index(until) + 1])
    library = None if {"layers", "model"}.isdisjoint(rungs) or against else transformers()
    release = Release.open(here(inspected.model.folder))
    release.require_complete()
    chosen = pick(layers, len(release.model.layers))
    own = compute_dtype(dtype or plan.workload.dtype)
    maps = {getattr(torch, name): mapped_for(inspected, plan, mapped, name) for name in dict.fromkeys(("float32", own))}
    ids = prompt(release, tokens or sequence_length(release, chosen, plan.machine.memory))
    settings = [inspected.to_dict(), plan.to_dict(), mapped.to_dict(), chosen, rungs, own, inputs, ids, library and library.__version__]
    kept = Journal(journal, [*settings, torch.__version__, day0.__version__])
    bench = Bench(release, maps, against[1] if against else None)
    task = Task(
        bench=bench, layers=chosen, rungs=rungs, inputs=inputs, ids=ids, progress=limit, journal=kept,
        plan=plan, opening=partial(planned, plan, mapped), switch=switch,
    )  # fmt: skip
    return_freed_memory()
    verdict, evidence = _judge(task)
    if not limit.spent:
        kept.close()
    return ValidateReport(
        verdict=verdict.answer(rungs[-1] in COMPARED, whole=not limit.spent), first_divergence=verdict.first(release.model), model=release.name,
        reference=against[0] if against else f"transformers {library.__version__}" if library else "none",
        dtype=own, layers=chosen, until=rungs[-1], inputs=inputs, tokens=len(ids), budget=budget,
        rungs=verdict.rungs, findings=verdict.findings(), **rows(evidence),
    )  # fmt: skip


def _judge(task: Task) -> tuple[Verdict, list[Evidence]]:
    """Climb, and let the checks look at everything that was measured."""
    verdict, evidence = Verdict(), list[Evidence]()
    for name, measure in climb(task):
        start = time.perf_counter()
        measured = list(_within_budget(name, measure))
        verdict.rung(name, measured, time.perf_counter() - start)
        evidence += measured
    return verdict, evidence


def _within_budget(rung: Rung, measure: Iterator[Evidence]) -> Iterator[Evidence]:
    """What can be measured in time, and what that leaves out."""
    try:
        yield from measure
    except Spent as stop:
        what = f"{rung}: {stop.what} from {stop.done} of {stop.total} on" if stop.done else f"{rung}: {stop.what}, all of it"
        why = "the time is over; started again with a larger --budget or none it goes on from here"
        yield Uncompared(layer=None, part=rung, rung=rung, what=what, why=why)


def mapped_for(inspected: InspectReport, plan: PlanMemoryReport, mapped: MapOpsReport, dtype: str) -> MapOpsReport:
    """The map itself, or in another type than the plan's what the same machine would run."""
    if dtype == plan.workload.dtype:
        return mapped
    other = plan.model_copy(update={"workload": plan.workload.model_copy(update={"dtype": dtype})})
    found = map_ops(inspected, other, plan.machine.machine())
    if found.missing:
        raise Day0Error(f"no implementation computes in {dtype}: {'; '.join(found.missing)}", hint="see `day0 map-ops`")
    return found


def climb(task: Task) -> Iterator[tuple[Rung, Iterator[Evidence]]]:
    """The rungs that were asked for, from the bottom; each measures when it is iterated."""
    everything = len(task.layers) == len(task.bench.release.model.layers)
    drawn = task.inputs == "random"
    rungs: dict[Rung, Callable[[], Iterator[Evidence]]] = {
        "weights": lambda: _weights(task, everything),
        "operators": lambda: compare_operators(task.bench, task.layers, task.ids, task.progress, drawn, task.journal.evidence),
        "layers": lambda: compare_all(task),
        "model": lambda: compare_whole(task) if everything and not drawn else iter(()),
        "service": lambda: _service(task),
    }
    if not {"layers", "model"}.isdisjoint(task.rungs):
        try:
            _ = task.bench.truth
        except NoReference as error:
            for name in ("layers", "model"):
                rungs[name] = _without(name, error)
    first = next((name for name in task.rungs if name in COMPUTED), None)
    model = task.bench.release.model
    short = list(too_short([model.layers[index] for index in task.layers], len(task.ids), model.context, first)) if first else []
    for name in task.rungs:
        yield name, chain(short, rungs[name]()) if name == first else rungs[name]()


def _weights(task: Task, everything: bool) -> Iterator[Evidence]:
    """As they are stored, then as the engine holds them."""
    release, probe = task.bench.release, task.bench.probes[torch.float32]
    yield from compare_weights(release, task.layers, everything, task.progress, task.journal.value)
    for index in task.layers:
        task.progress("weights as held", index, task.layers[-1] + 1)
        yield from task.journal.evidence(f"held {index}", partial(_held, probe, index))
    task.progress("weights as held", task.layers[-1] + 1, task.layers[-1] + 1)


def _held(probe: Probe, index: int) -> Iterator[Evidence]:
    return compare_held(probe.release, index, probe.weights(index))


def _service(task: Task) -> Iterator[Evidence]:
    """Answers over HTTP, where this machine can serve the model."""
    try:
        from day0.stages.service import compare_service

        yield from compare_service(task.opening(), task.ids, task.progress, task.journal.value)
    except (Day0Error, ModuleNotFoundError) as error:
        yield Uncompared(layer=None, part="service", rung="service", what="answers over HTTP", why=str(error))


def _without(rung: Rung, error: NoReference) -> Callable[[], Iterator[Evidence]]:
    """What a rung says when there is nothing to compare with."""
    what = "what each layer computes" if rung == "layers" else "the logits of the whole model"
    return lambda: iter([Uncompared(layer=None, part=rung, rung=rung, what=what, why=error.problem)])


def pick(layers: str, count: int) -> list[int]:
    """Layer numbers of "all", "3", "2-5", "0,4-6"."""
    if layers == "all":
        return list(range(count))
    found: set[int] = set()
    for part in layers.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise Day0Error(f"cannot read layers {layers!r}", hint="a number, a range A-B, several with commas, or all")
        if last >= count:
            raise Day0Error(f"there is no layer {last}", hint=f"the model has layers 0 to {count - 1}")
        found.update(range(first, last + 1))
    return sorted(found)


def sequence_length(release: Release, layers: Sequence[int], memory: int) -> int:
    """Beyond every window, choice and stretched context where that is affordable with `memory` bytes, and no shorter than `SHORTEST`."""
    model = release.model
    active = max(sum(located.spec.active for located in release.layer(index).values()) for index in layers)
    affordable = int(WORK / max(active, 1))
    longest = 0
    for layer in (model.layers[index] for index in layers):
        heads = getattr(getattr(layer.mixer, "attention", layer.mixer), "heads", 1)
        held = isqrt(memory // (SCORE * heads))
        longest = max(longest, reach(layer, min(affordable, LONGEST)), seen(layer, min(affordable, held)))
    return min(max(SHORTEST, longest), affordable, model.context)


def prompt(release: Release, tokens: int) -> list[int]:
    """Token ids of a text that everybody has, as long as asked; drawn ones where the release has no tokenizer that can be read."""
    vocab = release.model.vocab
    if (release.folder / "tokenizer.json").is_file():
        ids = [token for token in Tokenizer.open(release.folder).encode(TEXT) if token < vocab]
        if ids:
            return (ids * -(-tokens // len(ids)))[:tokens]
    return torch.randint(vocab, (tokens,), generator=torch.Generator().manual_seed(0)).tolist()
