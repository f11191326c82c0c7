"""`day0 why`: for one call of the map, who runs it, on what evidence, why each other candidate does not, what that costs, what would mend it.

Reads map-ops.yaml alone; no weights, no torch.
"""

import difflib

from day0.spec.errors import Day0Error
from day0.spec.record import record
from day0.spec.registry import kernels
from day0.spec.reports.map_ops import FALLBACKS, AskRow, MapOpsReport, SiteRow
from day0.spec.target import VendorKernel
from day0.stages.fallbacks import remedy


@record
class Candidate:
    """An implementation of the operator."""

    name: str  # kernel file, or "reference"
    answer: str  # chosen, or why not


@record
class Why:
    """The answer for calls that have one answer."""

    sites: list[SiteRow]  # alike but for their layer
    candidates: list[Candidate]
    asks: AskRow | None
    vendors: list[VendorKernel]
    remedy: str | None  # command that drafts what is missing; None where nothing falls back
    ways: list[str]  # how else it could be computed


def why(report: MapOpsReport, name: str) -> list[Why]:
    """One answer for each kind of call that `name` means: "layers.3.ffn.experts", "3.ffn.experts", "ffn.experts", "experts", an operator;
    with "/decode" or "/prefill" of that phase alone."""
    place, _, phase = name.partition("/")
    found = [site for site in report.sites if phase in ("", site.phase) and means(place, site)]
    if not found:
        known = sorted({word for site in report.sites for word in (site.op, site.name, site.label)})
        near = difflib.get_close_matches(place, known, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "such as layers.0.mixer.q, or an operator"
        raise Day0Error(f"no call is named {name!r}", hint=hint)
    alike: dict[object, list[SiteRow]] = {}
    for site in found:
        alike.setdefault((site.op, site.place, site.label, site.phase, site.kernel, site.status, site.format, site.variant), []).append(site)
    return [answer(report, sites) for sites in alike.values()]


def means(name: str, site: SiteRow) -> bool:
    """Whether a person's words mean a call."""
    whole = site.name
    return name in (site.op, site.label, whole, whole.removeprefix("layers."), f"{site.place}.{site.label}")


def answer(report: MapOpsReport, sites: list[SiteRow]) -> Why:
    """Of calls that are alike."""
    first = sites[0]
    fell = [row for row in report.fallbacks if (row.op, row.status) == (first.op, first.status)]
    return Why(
        sites=sites, candidates=candidates(report, first), asks=report.asks.get(first.asks or ""),
        vendors=[kernel for kernel in report.vendors if kernel.op == first.op],
        remedy=remedy(first) if first.status in FALLBACKS or first.decode else None,
        ways=[way for row in fell for way in (row.instead, *row.composed) if way],
    )  # fmt: skip


def candidates(report: MapOpsReport, site: SiteRow) -> list[Candidate]:
    """Every implementation that there is, in the order they are asked; the reference last."""
    reasons: dict[str, list[str]] = {}
    for refusal in site.refusals:
        reasons.setdefault(refusal.provider, []).append(refusal.reason)
    how = {"host fallback": ", on the host"}.get(site.status, ", after the weights are decoded" if site.decode else "")
    found = []
    for file, impl in sorted(kernels().items(), key=lambda item: rank(report, item[1].provider)):
        if impl.op == site.op:
            refused = "; ".join(reasons.get(impl.provider, []))
            later = "not asked: another comes first" if impl.provider in report.providers else f"{report.backend} does not use {impl.provider}"
            chosen = f"chosen{how}" + (f" (before: {refused})" if refused else "")
            found.append(Candidate(name=file, answer=chosen if file == site.kernel else refused or later))
    refused = "; ".join(reasons.get("reference", []))
    chosen = f"chosen{how}" + (f" (before: {refused})" if refused else "")
    own = chosen if site.provider == "reference" else refused or "not asked: another comes first"
    return [*found, Candidate(name="reference", answer=own if site.status != "missing" else "there is none")]


def rank(report: MapOpsReport, provider: str) -> int:
    """Place of a provider in the order of the backend; those it does not use come last."""
    return report.providers.index(provider) if provider in report.providers else len(report.providers)
