"""`day0 map-ops`: which implementation runs each operator call, and why others do not.

Reads the inspect and plan-memory reports and the release's headers; no weights, no torch. Leaves map-ops.yaml, which the engine binds.
Exit codes of the command: 0 every call has an implementation; 1 an operator is missing; 2 it could not be mapped.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.machine import Machine
from day0.spec.ops import PHASES, Impl, Phase, Site
from day0.spec.record import record
from day0.spec.registry import backends, formats, kernels, ops, parts
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport, MapStatus, Refusal, SiteRow
from day0.spec.reports.plan_memory import PlanMemoryReport, WorkloadRow
from day0.stages.reopen import reopen

FORCE = "DAY0_OPS"  # environment variable; "reference" leaves only the operators' own meanings


def map_ops(inspected: InspectReport, plan: PlanMemoryReport, machine: Machine) -> MapOpsReport:
    """Map the planned model on `machine`."""
    release = reopen(inspected)
    forced = os.environ.get(FORCE) or None
    if forced not in (None, "reference"):
        raise Day0Error(f"{FORCE}={forced} is not understood", hint=f"unset it, or {FORCE}=reference")
    choose = Chooser(machine, references_only=forced is not None)
    rows = list(sites(release, plan.workload, choose))
    missing = [f"{op}: {choose.absent(op)}" for op in sorted({row.op for row in rows if row.status == "missing"})]
    if machine.backend not in backends().names():
        missing.insert(0, f"backend {machine.backend}: has no file in day0/backends/")
    return MapOpsReport(
        verdict="incomplete" if missing else "complete",
        model=release.name,
        machine=machine.name,
        backend=machine.backend,
        providers=[*choose.providers, "reference"],
        forced=forced,
        summary=dict(Counter(row.status for row in rows).most_common()),
        missing=missing,
        unavailable=dict(kernels().missing),
        sites=rows,
    )


@record
class Choice:
    """Who runs a call."""

    provider: str | None  #: None when nobody can
    kernel: str | None  #: file in kernels/, None for the operator's own meaning
    status: MapStatus  #: what that implementation is here
    decode: bool  #: packed weights are decoded first
    refusals: tuple[tuple[str, str], ...]  #: (provider, reason) of those asked before


class Chooser:
    """Asks the implementations of an operator in the order that the machine's backend gives."""

    def __init__(self, machine: Machine, *, references_only: bool = False) -> None:
        self.machine = machine
        known = machine.backend in backends().names()
        self.providers: tuple[str, ...] = backends().get(machine.backend).providers if known and not references_only else ()
        self.offers: dict[str, list[tuple[str, Impl]]] = {}
        for provider in self.providers:
            for file, impl in kernels().items():
                if impl.provider == provider:
                    self.offers.setdefault(impl.op, []).append((file, impl))

    def choose(self, site: Site) -> Choice:
        """The first that accepts the weights as they rest, else the first that accepts them decoded, else the operator's own meaning."""
        if self.absent(site.op):
            return Choice(provider=None, kernel=None, status="missing", decode=False, refusals=())
        packed = is_packed(site.format)
        readings = [(site if packed else replace(site, format="plain"), False)]
        if packed:
            readings.append((replace(site, format="plain"), True))
        refusals: dict[tuple[str, str], None] = {}
        for reading, decode in readings:
            for file, impl in self.offers.get(site.op, ()):
                reason = impl.refuses(reading, self.machine)
                if reason is None:
                    status = "composite" if decode else impl.status
                    return Choice(provider=impl.provider, kernel=file, status=status, decode=decode, refusals=tuple(refusals))
                refusals[impl.provider, reason] = None
        return Choice(provider="reference", kernel=None, status="reference", decode=packed, refusals=tuple(refusals))

    def absent(self, op: str) -> str:
        """Why there is no such operator; empty when there is."""
        if op not in ops().names():
            return "has no file in day0/ops/"
        return "" if ops().load(op) else ops().missing[op]


def is_packed(form: str) -> bool:
    """Whether weights in this format (several joined by +) are decoded when they are used."""
    return any(formats().get(name).packed for name in form.split("+"))


def sites(release: Release, load: WorkloadRow, chooser: Chooser) -> Iterator[SiteRow]:
    """Every operator call with its choice; layers that are alike are asked about once."""
    known: dict[object, list[tuple[Site, Choice]]] = {}
    model = release.model
    for layer in model.layers:
        rests = {name: located.format for name, located in release.layer(layer.index).items()}
        for place, part in layer.parts():
            own = {name.removeprefix(f"{place}."): form for name, form in rests.items() if name.startswith(f"{place}.")}
            key = (place, part, *own.items())
            if key not in known:
                calls = (site for phase in PHASES for site in parts().get(part.kind).sites(part, model.hidden, phase))
                known[key] = list(chosen(calls, place, own, load, chooser))
            yield from (row(site, choice, layer.index) for site, choice in known[key])
    if load.sees:
        yield from tower_sites(release, load, chooser)
    ends = {name: located.format for name, located in release.ends().items()}
    calls = (site for phase in PHASES for site in model.end_sites(phase))
    yield from (row(site, choice, None) for site, choice in chosen(calls, "", ends, load, chooser))
    if model.collapse is not None:
        own = {name.removeprefix("collapse."): form for name, form in ends.items()}
        part = parts().get(model.collapse.kind)
        calls = (site for phase in PHASES for site in part.sites(model.collapse, model.hidden, phase))
        yield from (row(site, choice, None) for site, choice in chosen(calls, "collapse", own, load, chooser))


def tower_sites(release: Release, load: WorkloadRow, chooser: Chooser) -> Iterator[SiteRow]:
    """Calls of the tower for images, on the largest one; their places begin with "vision."."""
    encoder = release.model.encoder
    assert encoder is not None
    view = load.model_copy(update={"batch": 1, "context": load.image_patches, "chunk": load.image_patches})
    for index, place, part in encoder.places():
        prefix = f"{place}." if index is None else f"layers.{index}.{place}."
        rests = {name.removeprefix(prefix): weight.format for name, weight in release.vision.items() if name.startswith(prefix)}
        calls = parts().get(part.kind).sites(part, encoder.hidden, "prefill")
        yield from (row(site, choice, index) for site, choice in chosen(calls, f"vision.{place}", rests, view, chooser))


def chosen(calls: Iterator[Site], place: str, rests: dict[str, str], load: WorkloadRow, chooser: Chooser) -> Iterator[tuple[Site, Choice]]:
    """Each call completed with its place, its type, the format of its weights and the workload's sizes, and who runs it."""
    for call in calls:
        form = "+".join(sorted({rests[name] for name in call.weights if name in rests})) or "plain"
        sizes = {**call.sizes, **workload_sizes(load, call.phase)}
        site = replace(call, place=place, dtype=call.options.get("precision", load.dtype), format=form, sizes=sizes)
        yield site, chooser.choose(site)


def workload_sizes(load: WorkloadRow, phase: Phase) -> dict[str, int]:
    """T, tokens of a step in this phase, and S, tokens held for the longest sequence."""
    prefill = min(load.chunk, load.batch * load.context)
    return {"T": load.batch if phase == "decode" else prefill, "S": load.context}


def row(site: Site, choice: Choice, layer: int | None) -> SiteRow:
    """One line of the report."""
    return SiteRow(
        op=site.op, layer=layer, place=site.place, label=site.label, phase=site.phase, provider=choice.provider, kernel=choice.kernel,
        status=choice.status, decode=choice.decode, format=site.format, dtype=site.dtype, sizes=dict(site.sizes),
        refusals=[Refusal(provider=provider, reason=reason) for provider, reason in choice.refusals],
    )  # fmt: skip
