"""`day0 map-ops`: which implementation runs each operator call, why others do not, and what share of the work falls back.

Reads the inspect and plan-memory reports and the release's headers; no weights, no torch. Leaves map-ops.yaml, which the engine binds.
Exit codes of the command: 0 every call has an implementation; 1 an operator is missing; 2 it could not be mapped.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from day0.engine.calls import TELLING, call_key
from day0.engine.release import Located, Release
from day0.spec.errors import Day0Error
from day0.spec.lazy import TORCH_NAMES
from day0.spec.machine import Card, Machine
from day0.spec.ops import PHASES, Site
from day0.spec.placement import ONE_CARD, Placement
from day0.spec.profile import GB, TERA
from day0.spec.registry import backends, formats, kernels, ops, parts
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import FALLBACKS, STEPS, BetweenRow, FallbackRow, MapOpsReport, Refusal, SiteRow, Step
from day0.spec.reports.plan_memory import PlanMemoryReport, WorkloadRow
from day0.spec.target import UNVERIFIED, Target
from day0.stages.between import between
from day0.stages.choose import Choice, Chooser
from day0.stages.fallbacks import devices, fallbacks, type_rows, vendors
from day0.stages.rank import Rank
from day0.stages.reopen import reopen
from day0.stages.work import Work, work

FORCE = "DAY0_OPS"  # environment variable; "reference" leaves only the operators' own meanings


def map_ops(
    inspected: InspectReport, plan: PlanMemoryReport, machine: Machine, target: Target | None = None, *, emulate: bool = False,
    strict: bool = False,
) -> MapOpsReport:  # fmt: skip
    """Map the planned model on `machine`, or on another target; `emulate`: so that this machine will refuse what that one lacks."""
    release, forced, place = reopen(inspected), is_forced(), Placement(**plan.placement.model_dump())
    choose = Chooser(machine, target, references_only=forced is not None)
    rows = list(sites(release, plan.workload, place, choose))
    card = rates(machine, choose.target, planned=target is None)
    totals = shared(rows, card)
    glue = list(between(release.model, plan.workload.dtype, choose.target))
    fell = fallbacks(rows, choose.asks, choose.target, replace(machine, card=card))
    missing = list(dict.fromkeys(lacks(rows, glue, fell if strict else [], choose)))
    return MapOpsReport(
        verdict="incomplete" if missing else "complete",
        model=release.name,
        family=release.model.family,
        uncovered=[*release.model.unread_keys, *release.unclaimed],
        machine=machine.name,
        target=choose.target.reference,
        emulated=emulate,
        placement=str(place) if place.cards > 1 else "one card",
        backend=choose.target.backend,
        providers=[*choose.providers, "reference"],
        forced=forced,
        summary=dict(Counter(row.status for row in rows).most_common()),
        unverified=sum(row.evidence.startswith(UNVERIFIED) for row in rows),
        basis="time" if card.bandwidth else "bytes",
        shares={step: by_status(rows, step, totals) for step in STEPS},
        seconds={step: total if card.bandwidth else None for step, total in totals.items()},
        devices=devices(rows),
        fallbacks=fell,
        missing=missing,
        unavailable=dict(kernels().missing),
        types=type_rows(release, plan, choose.target),
        vendors=vendors(fell, choose.target),
        between=glue,
        asks=choose.asks,
        sites=rows,
    )


def is_forced() -> str | None:
    """What the environment forces."""
    forced = os.environ.get(FORCE) or None
    if forced not in (None, "reference"):
        raise Day0Error(f"{FORCE}={forced} is not understood", hint=f"unset it, or {FORCE}=reference")
    return forced


def lacks(rows: Iterable[SiteRow], glue: Iterable[BetweenRow], fell: Iterable[FallbackRow], choose: Chooser) -> Iterator[str]:
    """Why the map is not complete; `fell`: what must not fall back."""
    if choose.target.backend not in backends():
        yield f"backend {choose.target.backend}: has no file in day0/backends/"
    for op, status in sorted({(row.op, row.status) for row in rows if row.status in ("missing", "refused")}):
        reasons = [row.refusals[-1].reason for row in rows if row.op == op and row.refusals]
        yield f"{op}: {choose.absent(op) if status == 'missing' else reasons[-1] + ', and no host may help'}"
    yield from (f"between operators: {', '.join(row.lacking)} in {row.kind}" for row in glue if row.status == "refused")
    yield from (f"{row.op}: {row.status} ({row.reason}), and nothing may fall back" for row in fell if row.status in FALLBACKS)


def sites(release: Release, load: WorkloadRow, place: Placement, chooser: Chooser) -> Iterator[SiteRow]:
    """Every operator call as one card makes it, with its choice; layers that are alike are asked about once."""
    known: dict[object, list[tuple[Site, Choice, Work | None]]] = {}
    model, rank = release.model, Rank(load, place)
    for layer in model.layers:
        weights = release.layer(layer.index)
        for name, part in layer.parts():
            own = inside(weights, name)
            key = (name, part, *((weight, located.format) for weight, located in own.items()))
            if key not in known:
                kind = parts().get(part.kind)
                calls = (site for phase in PHASES for site in kind.sites(kind.of_rank(part, place.tp), model.hidden, phase))
                known[key] = list(chosen(calls, name, own, rank, chooser))
            yield from (row(*call, layer.index) for call in known[key])
    if load.sees:
        yield from tower_sites(release, load, chooser)
    ends = release.ends()
    calls = (site for phase in PHASES for site in model.end_sites(phase))
    yield from (row(*call, None) for call in chosen(calls, "", ends, rank, chooser))
    if model.collapse is not None:
        part = parts().get(model.collapse.kind)
        calls = (site for phase in PHASES for site in part.sites(model.collapse, model.hidden, phase))
        yield from (row(*call, None) for call in chosen(calls, "collapse", inside(ends, "collapse"), rank, chooser))


def inside(weights: Mapping[str, Located], place: str) -> dict[str, Located]:
    """Weights of one sublayer, by their names in it."""
    return {name.removeprefix(f"{place}."): located for name, located in weights.items() if name.startswith(f"{place}.")}


def tower_sites(release: Release, load: WorkloadRow, chooser: Chooser) -> Iterator[SiteRow]:
    """Calls of the tower for images, on the largest one; their places begin with "vision."."""
    encoder = release.model.encoder
    assert encoder is not None
    view = Rank(load.model_copy(update={"batch": 1, "context": load.image_patches, "chunk": load.image_patches}), ONE_CARD)
    for index, place, part in encoder.places():
        own = inside(release.vision, place if index is None else f"layers.{index}.{place}")
        calls = parts().get(part.kind).sites(part, encoder.hidden, "prefill")
        yield from (row(*call, index) for call in chosen(calls, f"vision.{place}", own, view, chooser))


def chosen(
    calls: Iterator[Site], place: str, weights: Mapping[str, Located], rank: Rank, chooser: Chooser
) -> Iterator[tuple[Site, Choice, Work | None]]:
    """Each call completed with its place, its type, the format of its weights and the workload's sizes; who runs it and what it costs."""
    biases = {name for name, located in weights.items() if located.spec.role == "bias"}
    packed = sum(located.spec.count for located in weights.values() if formats().get(located.format).packed)
    for call in calls:
        form = "+".join(sorted({weights[name].format for name in call.weights if name in weights})) or "plain"
        bias = any(f"{name}{ending}" in biases for name in call.weights for ending in ("_bias", "_linear_bias"))
        read = [weights[name] for name in call.weights if name in weights]
        turned = any(piece.cut and piece.cut.transpose for piece, _ in (located.pieces[0] for located in read))
        options = {
            **call.options, "bias": bias and call.op == "linear", "stored": stored_types(read), "packed": packed, "turned": turned,
        }  # fmt: skip
        dtype = call.options.get("precision", rank.load.dtype)
        site = replace(call, place=place, dtype=dtype, format=form, sizes=rank.sizes(call, weights), options=options)
        op = ops().load(call.op) if call.op in ops() else None
        yield site, chooser.choose(site), work(site, op, weights, rank) if op else None


def stored_types(weights: Iterable[Located]) -> str:
    """Number types of packed weights and their companions, as torch calls them."""
    parts = (part for located in weights for part in located.pieces[0][1].kept.values())
    return " ".join(sorted({TORCH_NAMES.get(part.dtype, "uint8") for part in parts}))


def row(site: Site, choice: Choice, cost: Work | None, layer: int | None) -> SiteRow:
    """One line of the report."""
    options = {name: value for name, value in site.options.items() if name in TELLING}
    variant = call_key(site.phase, site.dtype, options, grouped=False).removeprefix(f"{site.phase} {site.dtype}").strip()
    cost = cost or Work(flops=0, bytes=0)
    return SiteRow(
        op=site.op, layer=layer, place=site.place, label=site.label, variant=variant, phase=site.phase, provider=choice.provider,
        kernel=choice.kernel, status=choice.status, evidence=choice.evidence, decode=choice.decode, format=site.format, dtype=site.dtype,
        sizes=dict(site.sizes), asks=choice.asks, flops=cost.flops, bytes=cost.bytes,
        traffic=cost.bytes + (cost.decoded if choice.decode else 0), unpacked=cost.unpacked,
        refusals=[Refusal(provider=provider, reason=reason) for provider, reason in choice.refusals],
    )  # fmt: skip


def rates(machine: Machine, target: Target, planned: bool) -> Card:
    """Figures of speed: those measured on the target, else those of the machine where it is what was planned for."""
    measured, card = target.figures, machine.card
    if "copy_gbs" in measured:
        flops = {name.partition(".")[2]: rate * TERA for name, rate in measured.items() if name.startswith("matmul_tflops.")}
        return replace(card, bandwidth=measured["copy_gbs"] * GB, flops=flops)
    return card if planned else replace(card, bandwidth=None)


def shared(rows: list[SiteRow], card: Card) -> dict[Step, float]:
    """Fill in each call's share of its phase; returns seconds of a step, or bytes that it moves where no bandwidth can be trusted."""
    weighed = {id(row): weight(row, card) for row in rows}
    totals = {step: sum(weighed[id(row)] for row in of_step(rows, step)) for step in STEPS}
    for row in rows:
        row.share = weighed[id(row)] / totals[row.phase] if totals[row.phase] else 0.0
    return totals


def weight(row: SiteRow, card: Card) -> float:
    """Seconds of a call at the card's figures, or the bytes that it moves."""
    time = Work(flops=row.flops, bytes=row.bytes).seconds(card, row.dtype)
    return row.bytes if time is None else time


def of_step(rows: Iterable[SiteRow], step: Step) -> Iterator[SiteRow]:
    """Calls of a step. In a mixed one sequences that decode join a chunk of a prompt: mixers run twice, everything else once for all tokens."""
    phase = "prefill" if step == "mixed" else step
    return (row for row in rows if row.phase == phase or (step == "mixed" and row.place == "mixer"))


def by_status(rows: list[SiteRow], step: Step, totals: Mapping[Step, float]) -> dict[str, float]:
    """Status → share of a step, the largest first."""
    found: Counter[str] = Counter()
    for row in of_step(rows, step):
        found[row.status] += row.share * totals[row.phase]  # type: ignore[assignment]
    return {status: part / totals[step] if totals[step] else 0.0 for status, part in found.most_common()}
