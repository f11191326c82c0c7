"""The charts of a page, each from one report or two."""

from collections import Counter
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from day0.render.bars import alike
from day0.render.charts import Bar, Series, Share, Stack, bars, lines, shares, stacks
from day0.render.numbers import seconds, size
from day0.spec.record import record
from day0.spec.reports.map_ops import MapOpsReport, SiteRow
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.reports.run import RunReport
from day0.spec.reports.serve import ServeReport
from day0.spec.reports.suite import SuiteScore, by_kind
from day0.spec.reports.validate import DepthRow, LayerRow
from day0.stages.conclusion import MADE

PARTS = {
    "weights": "a1", "state": "a2", "images": "a3", "activations": "a4", "workspace": "a6", "collectives": "a7", "margin": "a5",
}  # → class of the colour
STATUSES = {
    "native": "a1", "fused": "a1", "compiled-native": "a1", "composite": "a2", "emulated": "a6", "compiled-emulated": "a6", "reference": "a6",
    "host fallback": "a7", "refused": "bad", "missing": "bad",
}  # fmt: skip
ORDER = list(STATUSES)  # from what was made for the machine to what nobody runs
SCORERS = ("a1", "a6", "a2", "a7", "a3")  # looks of those that answered a suite, in order
NAMED = 10  # operators that have a bar of their own


def memory(report: PlanMemoryReport) -> Markup:
    """What fills each card."""
    rows, held = [], report.machine.memory
    for name, card in alike(report.per_card):
        parts = [(f"{part}: {size(getattr(card, part))}", getattr(card, part), look) for part, look in PARTS.items()]
        said = f"{size(card.needed)} of {size(held)}" + (f", {size(-card.free)} short" if card.free < 0 else "")
        label = f"Cards {name.replace('-', '–')}" if "-" in name else f"Card {name}"
        rows.append(Stack(name=label, said=said, parts=parts, whole=max(held, card.needed), edge=held if card.free < 0 else None))
    words = "; ".join(f"{row.name}: {row.said} ({', '.join(part for part, amount, _ in row.parts if amount)})" for row in rows)
    return stacks(rows, f"Memory of each card. {words}")


@record
class Operator:
    """All calls of one operator."""

    op: str  # its name
    calls: dict[str, int]  # status → calls
    providers: list[str]  # who runs them
    time: float | None  # share of the time of `run`, 0 to 1; null where it was not measured

    @property
    def status(self) -> str:
        """The least of its statuses."""
        return max(self.calls, key=ORDER.index)

    @property
    def fallback(self) -> bool:
        return self.status not in MADE


def operators(mapped: MapOpsReport, run: RunReport | None) -> list[Operator]:
    """Those that took longest first; without times those that are called most."""
    time = {row.op: row.share for row in run.operators} if run else {}
    sites: dict[str, list[SiteRow]] = {}
    for site in mapped.sites:
        sites.setdefault(site.op, []).append(site)
    found = []
    for op, calls in sites.items():
        counted = sorted(Counter(site.status for site in calls).items(), key=lambda entry: ORDER.index(entry[0]))
        providers = list(dict.fromkeys(site.provider or "nobody" for site in calls))
        found.append(Operator(op=op, calls=dict(counted), providers=providers, time=time.get(op, 0.0) if time else None))
    return sorted(found, key=lambda row: (-(row.time or 0), -sum(row.calls.values())))


def coverage(mapped: MapOpsReport, run: RunReport | None) -> Markup:
    """How much is run by what was made for the machine: of the calls, and of the time where it was measured."""
    rows = [_covered("Of all calls", Counter(site.status for site in mapped.sites).items())]
    if run and run.operators:
        known = operators(mapped, run)
        times: Counter[str] = Counter()
        for row in known:
            times[row.status] += row.time or 0  # type: ignore[assignment]
        between = 1 - sum(times.values())
        rows.append(_covered("Of the time", [*times.items(), ("between operators", max(0.0, between))]))
    words = "; ".join(f"{row.name}: {', '.join(part for part, _, _ in row.parts)}" for row in rows)
    return stacks(rows, f"How operators are run. {words}")


def _covered(name: str, amounts: Iterable[tuple[str, float]]) -> Stack:
    amounts = sorted(amounts, key=lambda entry: (*ORDER, "between operators").index(entry[0]))
    whole = sum(amount for _, amount in amounts) or 1.0
    parts = [(f"{status} {100 * amount / whole:.1f} %", amount, STATUSES.get(status, "a5")) for status, amount in amounts]
    fallen = sum(amount for status, amount in amounts if status in STATUSES and status not in MADE)
    return Stack(name=name, said=f"{100 * fallen / whole:.1f} % falls back", parts=parts, whole=whole)


def statuses(mapped: MapOpsReport) -> list[str]:
    """Those that occur, in order."""
    return sorted({site.status for site in mapped.sites}, key=ORDER.index)


def refusals(mapped: MapOpsReport) -> list[tuple[tuple[str, str, str], int]]:
    """((operator, who refused, why), calls)."""
    return sorted(Counter((site.op, one.provider, one.reason) for site in mapped.sites for one in site.refusals).items())


def times(mapped: MapOpsReport, run: RunReport) -> Markup:
    """Where the time of `run` went."""
    looks = {row.op: STATUSES[row.status] for row in operators(mapped, run)}
    rows = [
        Bar(name=row.op if row.op in looks else "between operators", value=row.seconds, look=looks.get(row.op, "a5"),
            said=f"{seconds(row.seconds)} · {100 * row.share:.1f} %")
        for row in run.operators[:NAMED]
    ]  # fmt: skip
    return bars(rows, "Time by operator. " + "; ".join(f"{row.name}: {row.said}" for row in rows))


def errors(rows: Sequence[LayerRow] | Sequence[DepthRow]) -> list[Series]:
    """The worst error of each layer: the reference's in the model's own type, ours in that type, ours in float32."""
    named: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        own = row.dtype != "float32"
        found = [((f"reference, {row.dtype}", "a5"), row.errors.reference)] if own else []
        for key, value in (*found, ((f"day0, {row.dtype}", "a6" if own else "a1"), row.errors.ours)):
            points = named.setdefault(key, {})
            points[row.layer] = max(points.get(row.layer, 0.0), value)
    return [Series(name=name, look=look, points=points) for (name, look), points in sorted(named.items(), reverse=True)]


def by_layer(rows: Sequence[LayerRow] | Sequence[DepthRow]) -> Markup:
    """Errors over the depth of the stack."""
    series = errors(rows)
    last = max((layer for one in series for layer in one.points), default=0)
    words = "; ".join(f"{one.name}: at most {max(one.points.values()):.1e}" for one in series)
    return lines(series, last, f"Relative error by layer. {words}")


def latency(run: RunReport, served: ServeReport | None) -> Markup:
    """Until the first token, and from one token to the next."""
    named = [
        ("First token", run.times.first_token, "a1"), ("Next token, median", run.times.decode_p50, "a2"),
        ("Next token, 95th percentile", run.times.decode_p95, "a2"),
    ]  # fmt: skip
    if served:
        named.append(("First token over HTTP, median", served.first_token.p50, "a1"))
    rows = [Bar(name=name, value=value, said=seconds(value), look=look) for name, value, look in named if value is not None]
    return bars(rows, "Latency. " + "; ".join(f"{row.name}: {row.said}" for row in rows))


def scorers(scores: Sequence[SuiteScore]) -> list[tuple[SuiteScore, str]]:
    """Each with the class of its colour."""
    return [(score, SCORERS[place % len(SCORERS)]) for place, score in enumerate(scores)]


def accuracy(scores: Sequence[SuiteScore]) -> Markup:
    """Share of right answers of each kind, by each that was asked."""
    looks = [(score.by, look) for score, look in scorers(scores)]
    rows = [
        (kind, [
            Share(name=by, look=look, low=task.low, value=task.accuracy, high=task.high, said=f"{task.right} of {task.questions}")
            for (by, look), task in zip(looks, tasks, strict=True) if task
        ])
        for kind, tasks in by_kind(scores).items()
    ]  # fmt: skip
    words = "; ".join(f"{kind}: {', '.join(f'{one.said} by {one.name}' for one in found)}" for kind, found in rows)
    return shares(rows, f"Right answers. {words}")
