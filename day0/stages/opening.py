"""From reports to a running model, for every stage that runs one. All that can be refused is refused before weights are read."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from day0.checkpoint.source import here
from day0.engine.eye import Eye
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
from day0.stages.incident import Incidents, Recorded

ExecutorName = Literal["native", "community"]
Wrap = Callable[[Any, str, Callable[..., Any]], Callable[..., Any]]  # see engine.bind


class Executor(Protocol):
    """What answers requests: the engine, or the community's code behind the same face."""

    profile: dict[str, float]  # operator → seconds

    @property
    def read(self) -> int: ...

    @property
    def busy(self) -> bool: ...
    def add(self, request: Request) -> None: ...
    def step(self) -> Sequence[Output]: ...
    def account(self) -> dict[str, int]: ...


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A model that can run here, of which nothing but headers and tokenizer has been read."""

    folder: Path  # of the release
    model: str  # its name
    machine: str  # name of the machine
    backend_name: str  # file in backends/
    dtype: str  # type to compute in
    context: int  # tokens of the longest sequence
    weights: str = "resident"  # or streamed
    sees: bool = False  # whether images are taken

    @property
    def executor(self) -> ExecutorName:
        """Whose code runs."""
        return "community"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of the release."""
        return Tokenizer.open(self.folder)

    @cached_property
    def eye(self) -> Eye | None:
        """What reads images; None where none are taken."""
        encoder = Release.open(self.folder).model.encoder if self.sees else None
        return None if encoder is None else Eye.open(self.folder, encoder, self.tokenizer.id)

    @cached_property
    def backend(self) -> Backend:
        """Everything that knows the device; an error when this machine has no such device."""
        found: Backend = backends().get(self.backend_name)
        if found.probe() is None:
            raise Day0Error(f"this machine has no {found.name} device that the installed torch can use", hint="plan for this machine")
        return found

    @property
    def device(self) -> Any:
        """torch's name of the card."""
        return self.backend.device(0)

    def start(
        self, *, profile: bool = False, progress: Progress = silent, wraps: Sequence[Wrap] = (), incidents: Incidents | None = None
    ) -> "Opened":
        """Read the weights. `wraps` see every operator call of our engine, whose incidents go where `incidents` says."""
        import torch  # noqa: F401  the process's size before the weights has the library in it

        process = backends().get("cpu")
        process.reset_peak(None)
        self.backend.reset_peak(self.device)
        before, start = process.memory(None)["used"], time.perf_counter()
        engine = self._engine(profile, progress, wraps, incidents)
        self.backend.synchronise(self.device)
        return Opened(opening=self, engine=engine, seconds=time.perf_counter() - start, before=before)

    def _engine(self, _profile: bool, _progress: Progress, _wraps: Sequence[Wrap], incidents: Incidents | None) -> Executor:
        from day0.checkpoint.folder import Checkpoint

        if incidents and incidents.every:
            raise Day0Error("the community executor keeps no records", hint="leave out --record")
        from day0.community.executor import Community
        from day0.spec.lazy import torch_dtype

        return Community.open(Checkpoint.open(self.folder), torch_dtype(self.dtype), self.device, self.tokenizer, towers=self.sees)


@dataclass(frozen=True, kw_only=True)
class Planned(Opening):
    """A model that day0's engine runs as planned and mapped."""

    plan: PlanMemoryReport
    mapped: MapOpsReport

    @property
    def executor(self) -> ExecutorName:
        return "native"

    @cached_property
    def release(self) -> Release:
        """The release, complete and sound."""
        found = Release.open(self.folder)
        found.require_complete()
        return found

    def _engine(self, profile: bool, progress: Progress, wraps: Sequence[Wrap], incidents: Incidents | None) -> Executor:
        from day0.engine.batch import Engine
        from day0.engine.guard import Assertions

        wraps = [*wraps, *([Assertions()] if os.environ.get("DAY0_ASSERT", "0") != "0" else [])]
        engine = Engine.start(
            self.release, self.plan, self.mapped, self.tokenizer, self.device, profile=profile, progress=progress, wraps=wraps
        )  # fmt: skip
        return engine if incidents is None else Recorded(engine, self, incidents)  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A model whose weights are there."""

    opening: Opening
    engine: Executor
    seconds: float  # that starting took
    before: int  # resident bytes of the process before


def open_chain(chain: Chain, executor: ExecutorName, device: str | None = None, weights: str | None = None) -> Opening:
    """From what inspect, plan-memory and map-ops left; refuses what cannot run.

    The community's code needs no map, and a plan only for type and context: it runs models of families that day0 does not know yet.
    """
    inspected = chain.read(InspectReport)
    if executor == "native":
        return planned(chain.read(PlanMemoryReport), chain.read(MapOpsReport), device, weights, chain.path(PlanMemoryReport))
    if weights == "streamed":
        raise Day0Error("the community executor keeps weights resident", hint="leave out --weights")
    said, backend = inspected.model, device or "cpu"
    dtype, context, sees = said.dtype or "float32", said.context or 4096, False
    if chain.has(PlanMemoryReport):
        load = chain.read(PlanMemoryReport).workload
        dtype, context, sees = load.dtype, load.context, load.sees
    folder = here(said.folder)
    return Opening(folder=folder, model=said.name, machine=chain.target, backend_name=backend, dtype=dtype, context=context, sees=sees)


def planned(
    plan: PlanMemoryReport, mapped: MapOpsReport, device: str | None = None, weights: str | None = None, where: Path | None = None
) -> Planned:  # fmt: skip
    """From a plan and a map; `where` is the plan's file, for messages."""
    again = "run `day0 plan-memory {}` and `day0 map-ops` first".format
    load, machine = plan.workload, plan.machine
    if plan.verdict != "fits":
        hint = "see the plan; a smaller --context or --batch, or --weights streamed"
        raise Refused(f"{plan.model.name} does not fit {machine.name} as planned", where, hint=hint)
    if mapped.verdict != "complete":
        raise Refused(f"{plan.model.name} cannot run: {'; '.join(mapped.missing)}", where and where.with_name("map-ops.yaml"))
    if not mapped.emulated and "host fallback" in {*(row.status for row in mapped.sites), *(row.status for row in mapped.between)}:
        hint = "`day0 map-ops --target NAME --emulate` maps the same on this machine"
        raise Day0Error("the host runs what a card lacks only where that card is emulated", where and where.with_name("map-ops.yaml"), hint=hint)
    if device not in (None, machine.backend):
        raise Day0Error(f"planned for {machine.backend}, not for {device}", where, hint=again(f"--machine {device}"))
    if load.engine != "day0" or load.kv_dtype not in (None, load.dtype):
        kept = f"state in {load.kv_dtype}" if load.kv_dtype not in (None, load.dtype) else f"the layout of {load.engine}"
        raise Day0Error(f"planned for {kept}, which this engine does not have", where, hint=again("--engine day0, without --kv-dtype,"))
    if plan.cards > 1:
        raise Day0Error(f"planned for {plan.cards} cards; the engine runs on one", where, hint=again("--machine …x1"))
    if weights == "resident" and load.weights == "streamed":
        raise Day0Error("planned with streamed weights", where, hint=again("--weights resident"))
    if weights == "streamed":
        plan = plan.model_copy(update={"workload": load.model_copy(update={"weights": weights})})
    return Planned(
        folder=here(plan.model.folder), model=plan.model.name, machine=machine.name, backend_name=machine.backend, dtype=load.dtype,
        context=load.context, weights=plan.workload.weights, sees=load.sees, plan=plan, mapped=mapped,
    )  # fmt: skip
