"""Why a call runs as it does, as a person reads it."""

from rich.console import RenderableType
from rich.text import Text

from day0.render.map_ops import layers, percent
from day0.render.numbers import count, size
from day0.render.table import facts, stack, table, verdict
from day0.spec.reports.map_ops import FALLBACKS
from day0.stages.why import Why


def why(answers: list[Why]) -> RenderableType:
    """One block for each answer."""
    return stack(*(part for answer in answers for part in (block(answer), Text())))


def block(answer: Why) -> RenderableType:
    """Who, evidence, price, candidates, remedy."""
    sites, first = answer.sites, answer.sites[0]
    where = f" of layers {layers(sites)}" if first.layer is not None else ""
    variant = f" {first.variant}" if first.variant else ""
    title = f"{first.place + '.' if first.place else ''}{first.label}{where}, {first.phase}: {first.op}{variant} is {first.status}"
    sizes = ", ".join(f"{axis} {length}" for axis, length in first.sizes.items())
    weights = f"{first.format}, decoded first" if first.decode else first.format
    notes = [
        ("evidence", first.evidence),
        ("share", f"{percent(sum(site.share for site in sites))} of {first.phase}, {len(sites)} calls"),
        ("one call", f"{sizes}; {first.dtype}, weights {weights}; {count(first.flops)} operations, {size(first.bytes)} at the least"),
        ("as mapped", f"{size(first.traffic)}, {first.traffic / first.bytes:.1f}× of it" if first.bytes else "no bytes"),
    ]
    if answer.asks:
        notes.append(("of torch", ", ".join(answer.asks.operators) + f" on {', '.join(answer.asks.types)}"))
    notes += [("elsewhere", f"{kernel.library}: {kernel.serves} ({kernel.source})") for kernel in answer.vendors]
    notes += [("remedy", answer.remedy)] if answer.remedy else []
    notes += [("or", way) for way in answer.ways]
    made = table("candidate", "answer")
    for candidate in answer.candidates:
        made.add_row(candidate.name, Text(candidate.answer))
    return stack(verdict(title, None if first.status in FALLBACKS else True), facts(notes), made)
