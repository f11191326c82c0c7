"""`day0 plan-memory`: whether a model fits a machine for a workload, and what lives where, to the byte.

Reads the inspect report and the release's headers; no weights, no torch. Leaves plan-memory.yaml, which the engine obeys.
Exit codes of the command: 0 it fits; 1 it does not; 2 it could not be planned.
"""

from collections.abc import Iterator
from math import lcm

from day0.checkpoint.folder import no_collection
from day0.engine import footprint, search
from day0.engine.demand import Demand, amount
from day0.engine.eye import Eye
from day0.engine.legal import problems
from day0.engine.offload import offload
from day0.engine.release import Release
from day0.engine.roofline import roofline
from day0.engine.rules import named_rules
from day0.engine.share import UNEVEN
from day0.engine.transient import PATCHES
from day0.spec.check import HUNDREDS
from day0.spec.dtype import compute_dtype
from day0.spec.encoder import Encoder
from day0.spec.errors import Day0Error
from day0.spec.finding import Finding
from day0.spec.machine import Machine
from day0.spec.registry import checks
from day0.spec.reports.base import FindingRow
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.plan_memory import (
    Alternative,
    Band,
    Load,
    MachineRow,
    ModelRow,
    Part,
    PlacementRow,
    PlanMemoryReport,
    Point,
    WorkloadRow,
)
from day0.spec.workload import Workload, kv_type
from day0.stages import bill
from day0.stages.reopen import reopen

DEFAULT_CONTEXT, DEFAULT_BATCH = 4096, 8
IMAGE_TOKENS = 4096  # of the largest image, where another engine runs the tower
CONTEXTS = tuple(1 << power for power in range(12, 21))  # tokens, of the frontier


def plan_memory(inspected: InspectReport, machine: Machine, workload: Workload) -> PlanMemoryReport:
    """Plan the inspected model on `machine`. What the workload leaves open is chosen here and stated in the report."""
    with no_collection():
        return _planned(reopen(inspected), machine, workload)


def _planned(release: Release, machine: Machine, workload: Workload) -> PlanMemoryReport:
    if release.missing:
        more = f" and {len(release.missing) - 1} more" if len(release.missing) > 1 else ""
        problem = f"weight {release.missing[0]}{more} is not in the checkpoint"
        raise Day0Error(problem, release.where, hint="a plan without it would be too small; run `day0 inspect` on it")
    if workload.vision and (not release.model.towers or (workload.engine == "day0" and not release.checkpoint.config_alone)):
        release.require_vision()
    if machine.card.memory <= 0:
        raise Day0Error(f"{machine.name} has no memory left", hint="end other work on it, or raise the limit of its container")
    _require_host(workload, machine)
    fixed = degrees(workload)
    demand = search.plan(Demand(release, complete(workload, release), machine), fixed)
    return report(demand, workload, fixed)


def report(demand: Demand, workload: Workload, fixed: dict[str, int]) -> PlanMemoryReport:
    """The report on a plan."""
    release, legal = demand.release, not problems(demand)
    reasons = list(findings(demand))
    fits = legal and demand.holds and not any(reason.status == "fail" for reason in reasons)
    return PlanMemoryReport(
        verdict="fits" if fits else "does not fit" if legal else "refused",
        reasons=[FindingRow(**vars(finding)) for finding in reasons],
        model=ModelRow(name=release.name, folder=release.where, family=release.model.family, context=release.model.context),
        machine=MachineRow.of(demand.machine),
        workload=demand.workload,
        cards=search.least_count(demand),
        placement=PlacementRow.of(demand.placement),
        cp=demand.placement.cp,
        redundant_experts=demand.placement.redundant,
        band=Band(**demand.band()),
        per_card=list(demand.cards()),
        weights=bill.pools(demand),
        groups=bill.groups(demand),
        state=bill.state(demand),
        capacity=demand.capacity(),
        transients=parts(demand.transients),
        collectives=parts(demand.collectives),
        load=Load(**demand.load()),
        alternatives=list(alternatives(demand, fixed)),
        frontier=frontier(demand) if fits else [],
        offload=None if fits or not legal else offload(demand, workload.host_memory or demand.machine.host_memory),
        roofline=roofline(demand) if legal else None,
        residual=residual(demand),
        assumptions=[*assumptions(demand, workload), *_unused(demand, workload, fixed, fits)],
    )


def _unused(demand: Demand, workload: Workload, fixed: dict[str, int], fits: bool) -> Iterator[str]:
    """What is there, or was asked for, and changes nothing."""
    if demand.machine.cards > demand.placement.cards:
        least = ": the least that fit" if fits and not fixed else ""
        yield f"{demand.placement.cards} of the {demand.machine.cards} cards are used{least}"
    if workload.host_memory and fits:
        yield "`--host-memory` changes nothing: the weights fit without the host"


def degrees(workload: Workload) -> dict[str, int]:
    """The degrees of parallelism that were asked for."""
    asked = {name: getattr(workload, name) for name in ("tp", "ep", "pp", "dp", "cp")}
    return {name: degree for name, degree in asked.items() if degree} | ({"redundant": workload.redundant} if workload.redundant else {})


def alternatives(demand: Demand, fixed: dict[str, int]) -> Iterator[Alternative]:
    """The best legal plan for each number of cards that the machine has, where there is more than one."""
    numbers = list(search.counts(demand.machine, demand.machine.cards, fixed))
    for count in numbers if len(numbers) > 1 else ():
        found = search.best(demand, count, fixed)
        if found is not None:
            place = PlacementRow.of(found.placement)
            yield Alternative(cards=count, placement=place, free=found.card().free, sequences=found.sequences_that_fit)


def frontier(demand: Demand) -> list[Point]:
    """Largest batch at each context up to the released one."""
    contexts = [context for context in CONTEXTS if context <= demand.release.model.context]
    return [Point(context=context, batch=demand.under(context=context).max_batch()) for context in contexts]


def parts(found: dict[str, int]) -> list[Part]:
    """What is not nothing."""
    return [Part(name=name, bytes=size) for name, size in found.items() if size]


def residual(demand: Demand) -> str:
    """What is known of bytes beyond those that are modelled."""
    if demand.workload.engine == "day0":
        return "none"
    known = demand.residual
    return f"up to {known.p95:.0%} of the weights ({known.source})" if known else "unknown"


def _require_host(workload: Workload, machine: Machine) -> None:
    """Day0Error where weights are given more of the host's memory than it has."""
    asked, there = workload.host_memory, machine.host_memory
    if asked and there is not None and asked > there:
        raise Day0Error(f"{amount(asked)} of the host's memory for weights, and {machine.name} has {amount(there)}", hint="a smaller --host-memory")


def complete(workload: Workload, release: Release) -> WorkloadRow:
    """The workload with what it leaves open."""
    model, rules = release.model, named_rules(workload.engine)
    dtype = compute_dtype(workload.dtype or model.dtype)
    vision = (rules.vision if workload.vision is None else workload.vision) and bool(model.towers)
    runs = vision and workload.engine == "day0" and not release.checkpoint.config_alone
    encoder = model.encoder if runs else None
    patches = most_patches(workload, release, encoder) if encoder else 0
    return WorkloadRow(
        context=workload.context or min(model.context, DEFAULT_CONTEXT),
        batch=workload.batch or DEFAULT_BATCH,
        dtype=dtype,
        weights=workload.weights,
        page_size=lcm(workload.page_size, footprint.page_unit(model)),
        chunk=workload.chunk,
        kv_dtype=kv_type(workload.kv_dtype) if workload.kv_dtype else None,
        engine=workload.engine,
        prediction=workload.prediction,
        vision=vision,
        images=workload.images,
        image_tokens=workload.image_tokens or (-(-patches // encoder.merge**2) if encoder else IMAGE_TOKENS),
        image_patches=patches,
        utilisation=workload.utilisation or rules.utilisation,
    )


def most_patches(workload: Workload, release: Release, encoder: Encoder) -> int:
    """Of the largest image."""
    return workload.image_tokens * encoder.merge**2 if workload.image_tokens else Eye.open(release.checkpoint.source, encoder).most


def findings(demand: Demand) -> Iterator[Finding]:
    """What the checks on plans have to say."""
    for _, check in checks().items(*HUNDREDS["plan-memory"]):
        yield from check.run(demand)


def assumptions(demand: Demand, workload: Workload) -> Iterator[str]:
    """What the figures rest on."""
    load, rules, card = demand.workload, demand.rules, demand.machine.card
    if workload.context is None:
        yield f"context {load.context}: not given; the release's own, at most {DEFAULT_CONTEXT}"
    if workload.batch is None:
        yield f"batch {load.batch}: not given"
    runtime, slack = rules.context_gib, rules.slack
    yield f"activations {counted(demand)}: steps of at most {demand.step_tokens} tokens, {demand.sequences} of them with logits"
    yield f"margin: {runtime.p95:g} GiB for the runtime ({runtime.p50:g} is usual) and {slack.p95:.0%} of the rest for the allocator"
    if load.utilisation < 1:
        yield f"{load.engine} fills {load.utilisation:.0%} of a card"
    if demand.release.checkpoint.config_alone:
        yield "from config alone: weights as the family declares them"
    if (demand.release.prediction or demand.release.model.prediction) and not load.prediction:
        yield "extra prediction layers are left out (`--with-mtp` counts them)"
    if demand.release.model.towers:
        yield seen(load, given=workload.image_tokens is not None)
    if card.evidence.get("memory") == "unverified":
        yield f"usable memory of {card.name} is unverified"
    if demand.placement.cards > 1:
        yield f"fast links join {demand.machine.cards_per_node} cards; {amount(sum(demand.collectives.values()))} a card is for communication"


def counted(demand: Demand) -> str:
    """What the figure of activations is."""
    if not demand.working.rehearsed:
        return "are an estimate by formulas"
    where = "" if demand.machine.backend == "cpu" else ", and inside of its operators what it holds on a processor"
    return f"are the largest live set of the engine's own code with torch's kernels{where}; an expert is given up to {UNEVEN} times its share"


def seen(load: WorkloadRow, *, given: bool) -> str:
    """What is planned for images."""
    if load.sees:
        said = "given" if given else "the most that the release's preprocessor makes"
        most = f"{load.image_patches} patches ({said}), {load.image_tokens} tokens"
        return f"images of up to {most}; the tower is whole on the card, one view at a time"
    if load.vision:
        return f"images at once: {load.images} of at most {load.image_tokens} tokens, {PATCHES} patches each (`--images`, `--image-tokens`)"
    return "towers of other modalities are left out (`--with-vision` counts them)"
