"""`day0 plan-memory`: whether a model fits a machine for a workload, and what lives where, to the byte.

Reads the inspect report and the release's headers; no weights, no torch. Leaves plan-memory.yaml, which the engine obeys.
Exit codes of the command: 0 it fits; 1 it does not; 2 it could not be planned.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from math import ceil, lcm

from day0.engine import footprint
from day0.engine.demand import RUNTIME, SLACK, Demand
from day0.engine.release import Release
from day0.spec.dtype import compute_dtype
from day0.spec.errors import Day0Error
from day0.spec.finding import Finding
from day0.spec.machine import Machine
from day0.spec.registry import checks
from day0.spec.reports.base import FindingRow
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.plan_memory import (
    MachineRow,
    ModelRow,
    Placement,
    PlanMemoryReport,
    State,
    StatePool,
    TensorGroup,
    WeightPool,
    WorkloadRow,
)
from day0.spec.workload import Workload
from day0.stages.reopen import reopen

DEFAULT_CONTEXT, DEFAULT_BATCH = 4096, 8
ONE_CARD = Placement(tp=1, ep=1, pp=1, dp=1)


def plan_memory(inspected: InspectReport, machine: Machine, workload: Workload) -> PlanMemoryReport:
    """Plan the inspected model on `machine`. What the workload leaves open is chosen here and stated in the report."""
    release = reopen(inspected)
    if release.missing:
        more = f" and {len(release.missing) - 1} more" if len(release.missing) > 1 else ""
        problem = f"weight {release.missing[0]}{more} is not in the checkpoint"
        raise Day0Error(problem, release.where, hint="a plan without it would be too small; run `day0 inspect` on it")
    if machine.card.memory <= 0:
        raise Day0Error(f"{machine.name} has no memory left", hint="end other work on it, or raise the limit of its container")
    demand = Demand(release, complete(workload, release), machine)
    card = demand.card()
    return PlanMemoryReport(
        verdict="fits" if card.free >= 0 else "does not fit",
        reasons=[FindingRow(**vars(finding)) for finding in findings(demand)],
        model=ModelRow(name=release.name, folder=release.where, family=release.model.family, context=release.model.context),
        machine=MachineRow.of(machine),
        workload=demand.workload,
        cards=demand.least_cards(),
        placement=ONE_CARD,
        per_card=[card],
        weights=[WeightPool(name=name, bytes=size) for name, size in demand.weights.items()],
        groups=groups(demand),
        state=state(demand),
        capacity=demand.capacity(),
        assumptions=list(assumptions(demand, machine, workload)),
    )


def complete(workload: Workload, release: Release) -> WorkloadRow:
    """The workload with what it leaves open."""
    model = release.model
    return WorkloadRow(
        context=workload.context or min(model.context, DEFAULT_CONTEXT),
        batch=workload.batch or DEFAULT_BATCH,
        dtype=compute_dtype(workload.dtype or model.dtype),
        weights=workload.weights,
        page_size=lcm(workload.page_size, footprint.page_unit(model)),
        chunk=workload.chunk,
    )


def findings(demand: Demand) -> Iterator[Finding]:
    """What the checks on plans have to say."""
    for _, check in checks().items():
        if check.scope == "plan":
            yield from check.run(demand)


def groups(demand: Demand) -> list[TensorGroup]:
    """Weights by role, as they lie in memory when they are there."""
    release, dtype, residency = demand.release, demand.workload.dtype, demand.workload.weights
    held: Counter[str] = Counter()
    tensors: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for place in (*(release.layer(layer.index) for layer in release.model.layers), release.ends()):
        laid = footprint.buffer(place, dtype)
        ends = [following.start for following in laid.slices[1:]] + [laid.bytes]
        for part, end in zip(laid.slices, ends, strict=True):
            held[place[part.name].spec.role] += end - part.start
        for located in place.values():
            tensors[located.spec.role] += 1
            stored[located.spec.role] += sum(weight.bytes * times for weight, times in located.alike)
    return [TensorGroup(role=role, tensors=tensors[role], stored=stored[role], bytes=held[role], residency=residency) for role in held]


def state(demand: Demand) -> State:
    """The pools of the state manager, one row for each kind."""
    load, model = demand.workload, demand.release.model
    token, sequence = footprint.state_bytes(model, load.dtype, chunk=load.chunk, context=load.context)
    pools = sorted(demand.pools(demand.pages), key=lambda pool: repr(pool.spec))
    rows = []
    for _, same in groupby(pools, key=lambda pool: repr(pool.spec)):
        members = list(same)
        spec = members[0].spec
        rows.append(
            StatePool(
                name=spec.name, kind=spec.kind, layers=len(members), entry_bytes=spec.entry_bytes, every=spec.every, window=spec.window,
                pages=members[0].shape[0] if spec.grows else 0, bytes=sum(pool.bytes for pool in members),
            )
        )  # fmt: skip
    return State(bytes_per_token=ceil(token), bytes_per_sequence=sequence, page_size=load.page_size, pages=demand.pages, pools=rows)


def assumptions(demand: Demand, machine: Machine, workload: Workload) -> Iterator[str]:
    """What the figures rest on."""
    load = demand.workload
    if workload.context is None:
        yield f"context {load.context}: not given; the release's own, at most {DEFAULT_CONTEXT}"
    if workload.batch is None:
        yield f"batch {load.batch}: not given"
    yield f"activations are an estimate for steps of {demand.step_tokens} tokens, {load.batch} of them with logits"
    yield f"margin: {RUNTIME} bytes for the runtime and one part in {SLACK} of the rest for the allocator"
    if machine.card.evidence.get("memory") == "unverified":
        yield f"usable memory of {machine.card.name} is unverified"
    if machine.cards > 1:
        yield f"one of the {machine.cards} cards is used: a model is not cut over cards"
