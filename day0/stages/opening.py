"""From reports to a running model, for every stage that runs one. All that can be refused is refused before weights are read."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from day0.engine.release import Release
from day0.engine.text import Tokenizer
from day0.spec.errors import Day0Error, Refused
from day0.spec.machine import Backend
from day0.spec.progress import Progress, silent
from day0.spec.registry import backends
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.request import Output, Request
from day0.stages.chain import Chain

ExecutorName = Literal["native", "community"]


class Executor(Protocol):
    """What answers requests: the engine, or the community's code behind the same face."""

    profile: dict[str, float]  # operator → seconds

    @property
    def busy(self) -> bool: ...
    def add(self, request: Request) -> None: ...
    def step(self) -> Sequence[Output]: ...
    def account(self) -> dict[str, int]: ...


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A planned and mapped model of which nothing but headers and tokenizer has been read."""

    folder: Path
    plan: PlanMemoryReport
    mapped: MapOpsReport
    executor: ExecutorName

    @classmethod
    def of(cls, chain: Chain, executor: ExecutorName = "native", device: str | None = None, weights: str | None = None) -> "Opening":
        """Read what inspect, plan-memory and map-ops left; refuse what cannot run."""
        folder = Path(chain.read(InspectReport).model.folder)
        plan, mapped = chain.read(PlanMemoryReport), chain.read(MapOpsReport)
        if plan.verdict != "fits":
            short = f"{plan.model.name} does not fit {plan.machine.name}"
            raise Refused(short, chain.path(PlanMemoryReport), hint="see the plan; a smaller --context or --batch, or --weights streamed")
        if mapped.verdict != "complete":
            raise Refused(f"operators are missing: {'; '.join(mapped.missing)}", chain.path(MapOpsReport), hint="see `day0 map-ops`")
        if device not in (None, plan.machine.backend):
            hint = f"run `day0 plan-memory --machine {device}` and `day0 map-ops` first"
            raise Day0Error(f"planned for {plan.machine.backend}, asked to run on {device}", chain.path(PlanMemoryReport), hint=hint)
        if plan.machine.cards > 1 or plan.cards > 1:
            raise Day0Error(f"planned for {plan.machine.cards} cards; one is what runs today", chain.path(PlanMemoryReport))
        if weights == "resident" and plan.workload.weights == "streamed":
            hint = "run `day0 plan-memory --weights resident` and `day0 map-ops` first"
            raise Day0Error("planned with streamed weights", chain.path(PlanMemoryReport), hint=hint)
        if weights:
            plan = plan.model_copy(update={"workload": plan.workload.model_copy(update={"weights": weights})})
        return cls(folder=folder, plan=plan, mapped=mapped, executor=executor)

    @cached_property
    def release(self) -> Release:
        """The release, complete and sound."""
        found = Release.open(self.folder)
        found.require_complete()
        return found

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of the release."""
        return Tokenizer.open(self.folder)

    @cached_property
    def backend(self) -> Backend:
        """Everything that knows the device; an error when this machine has no such device."""
        found: Backend = backends().get(self.plan.machine.backend)
        if found.probe() is None:
            raise Day0Error(f"this machine has no {found.name} device that the installed torch can use", hint="plan for this machine")
        return found

    @property
    def device(self) -> Any:
        """torch's name of the card."""
        return self.backend.device(0)

    def start(self, *, profile: bool = False, progress: Progress = silent) -> "Opened":
        """Read the weights."""
        process = backends().get("cpu")
        import torch  # the process's size before the weights has the library in it

        ...
