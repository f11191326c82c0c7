"""Models of the zoo taken through inspect, plan-memory and map-ops, and started."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf, isfinite, lcm
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from day0.checkpoint.config import Config
from day0.engine import footprint
from day0.engine.batch import Engine
from day0.engine.bind import Bound, Wrap
from day0.engine.model import Forward
from day0.engine.packed import Workspace
from day0.engine.release import Release, recognise
from day0.engine.score import score
from day0.engine.state import State
from day0.engine.text import Tokenizer
from day0.engine.weights import open_weights
from day0.spec.machine import Machine
from day0.spec.model import Model
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.request import Output, Request
from day0.spec.step import Step
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.plan_memory import plan_memory
from tests.plans import quick_plan
from tests.zoo import kimi_k3
from tests.zoo.family import catalog
from tests.zoo.tokenizer import CONFIG_IDS

CPU = torch.device("cpu")


def families_first(names: Iterable[str]) -> list[Any]:
    """Names of checkpoints as parameters: variants of a family ("qwen3_moe-fp8") are slow, where a test is about what they have in common."""
    return [pytest.param(name, marks=[pytest.mark.slow] if "-" in name else []) for name in names]


@cache
def described(name: str) -> Model:
    """A checkpoint of the zoo by its configuration alone; nothing is built."""
    config = Config(copy.deepcopy(kimi_k3.config_json(name) if name in kimi_k3.SEEDS else catalog()[name].keys | CONFIG_IDS))
    return recognise(config)[1].read(config)


@cache
def processor() -> Machine:
    return find_machine("cpu")


@cache
def inspected(folder: Path) -> InspectReport:
    return inspect(folder)


@cache
def planned(folder: Path, workload: Workload, *, rehearsed: bool = False) -> tuple[PlanMemoryReport, MapOpsReport]:
    """`rehearsed`: activations as well."""
    plan = (plan_memory if rehearsed else quick_plan)(inspected(folder), processor(), workload)
    return plan, map_ops(inspected(folder), plan, processor())


def load(**changes: Any) -> Workload:
    """Room for five sequences of 160 tokens in float32, with `changes`."""
    return Workload(**{"context": 160, "batch": 5, "dtype": "float32", **changes})


def start(folder: Path, text: bool = False, change: Callable[[Release], None] | None = None, **changes: Any) -> Engine:
    """An engine; `change` edits the release before it starts, `text` gives it the tokenizer."""
    plan, mapped = planned(folder, load(**changes))
    release = Release.open(folder)
    if change:
        change(release)
    return Engine.start(release, plan, mapped, Tokenizer.open(folder) if text else None, CPU)


def assembled(
    folder: Path, *, wrap: Wrap | None = None, change: Callable[[Model], Model] = lambda model: model, dtype: str = "float32",
    chunk: int = 512, **sizes: int,
) -> tuple[Forward, State]:
    """The same without requests: operators wrapped, the model's description changed, the state of another size."""
    _, mapped = planned(folder, load(dtype=dtype))
    release = Release.open(folder)
    model, page = change(release.model), lcm(16, footprint.page_unit(release.model))
    sizes = {"pages": 5 * footprint.pages_for(160, page), "page_size": page, "sequences": 5, "context": 160} | sizes
    state = State(model.layers, footprint.state(release.model, dtype, chunk=chunk, **sizes), device=CPU, **sizes)
    bound = Bound(mapped.sites, Workspace(footprint.workspace(release, dtype), CPU), wrap)
    return Forward(model, open_weights(release, dtype, "resident", CPU), bound, state), state


@cache
def resident(folder: Path) -> Engine:
    """One engine in float32 for all tests of a process that leave it idle."""
    return start(folder)


@dataclass(frozen=True)
class Expected:
    """What transformers computed in float32."""

    prompts: list[list[int]]
    logits: list[Tensor]  # [tokens, W] of each prompt
    greedy: list[list[int]]  # continuations

    @property
    def range(self) -> float:
        return max((one.max() - one.min()).item() for one in self.logits)

    def deviation(self, found: Sequence[Tensor]) -> float:
        """Largest error of any logit, relative to their range; infinite where one is not finite."""
        errors = [(one - right).abs().max().item() for one, right in zip(found, self.logits, strict=True)]
        return max(errors) / self.range if all(map(isfinite, errors)) else inf

    def first(self, count: int) -> "Expected":
        """At most `count` tokens of each prompt."""
        return Expected([prompt[:count] for prompt in self.prompts], [one[:count] for one in self.logits], self.greedy)

    def with_prefix(self, count: int) -> "Expected":
        """One more prompt: the first tokens of the longest, whose logits are the first of its own."""
        longest = max(range(len(self.prompts)), key=lambda i: len(self.prompts[i]))
        prompts, logits = [*self.prompts, self.prompts[longest][:count]], [*self.logits, self.logits[longest][:count]]
        return Expected(prompts, logits, self.greedy)


@cache
def expected(folder: Path) -> Expected:
    tensors = load_file(folder / "expected.safetensors")
    lengths = sorted(int(name.rpartition("_")[2]) for name in tensors if name.startswith("input_ids_"))
    prompts, greedy = ([tensors[f"{kind}_{n}"][0].tolist() for n in lengths] for kind in ("input_ids", "greedy"))
    return Expected(prompts, [tensors[f"logits_{n}"][0] for n in lengths], greedy)


def logits(engine: Engine, prompts: Iterable[Sequence[int]], **manner: int | None) -> list[Tensor]:
    """Of every token of `prompts`, run as one batch."""
    found = score(engine.forward, engine.state, list(prompts), **manner)
    assert engine.usage == 0
    return found


def mixed(forward: Forward, state: State, prompts: Sequence[Sequence[int]], borders: Sequence[int], chunk: int) -> list[Tensor]:
    """The same; tokens before a prompt's border are read in chunks, the others one by one, so that steps hold both phases."""
    admitted = [state.admit(len(prompt)) for prompt in prompts]
    found: list[list[Tensor]] = [[] for _ in prompts]
    phases = set()
    while pending := [b for b, prompt in enumerate(prompts) if admitted[b].length < len(prompt)]:
        decoding = [b for b in pending if admitted[b].length >= borders[b]]
        reading = [b for b in pending if b not in decoding]
        ends = {b: min(borders[b], admitted[b].length + chunk) if b in reading else admitted[b].length + 1 for b in pending}
        news = {b: prompts[b][admitted[b].length : ends[b]] for b in decoding + reading}
        segments = [[(admitted[b], news[b]) for b in members] for members in (decoding, reading)]
        decode, prefill = (state.segment(p, s) if s else None for p, s in zip(("decode", "prefill"), segments, strict=True))
        phases.add((decode is not None, prefill is not None))
        step = Step(decode=decode, prefill=prefill, outputs=torch.arange(sum(map(len, news.values()))))
        rows = forward.logits(forward.hidden(step)).split([len(new) for new in news.values()])
        for b, logits_TW in zip(news, rows, strict=True):
            found[b].append(logits_TW)
    assert (True, True) in phases
    for sequence in admitted:
        state.free(sequence)
    return [torch.cat(pieces) for pieces in found]


@dataclass
class Answer:
    """All that an engine said about one request."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    outputs: list[Output] = field(default_factory=list)

    @property
    def finish(self) -> str | None:
        return self.outputs[-1].finish


def hear(answers: dict[str, Answer], outputs: Iterable[Output]) -> None:
    """Add what one step brought."""
    for output in outputs:
        answer = answers.setdefault(output.id, Answer())
        assert not answer.outputs or answer.finish is None, f"{output.id} goes on after its end"
        answer.tokens += output.tokens
        answer.text += output.text
        answer.outputs.append(output)


def run(engine: Engine, *requests: Request, limit: int = 1000) -> dict[str, Answer]:
    """Add the requests, step until nothing is left, and check that nothing is held."""
    answers: dict[str, Answer] = {}
    for request in requests:
        engine.add(request)
    for _ in range(limit):
        if not engine.busy:
            break
        hear(answers, engine.step())
    assert not engine.busy, "it never ends"
    assert (engine.running, engine.waiting, engine.usage) == (0, 0, 0)
    return answers
