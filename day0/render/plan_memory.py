"""The plan as a person reads it: does it fit, what fills the card, how far it goes."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.bars import PARTS, alike, bar
from day0.render.compared import residuals, variants
from day0.render.numbers import size, tokens
from day0.render.roofline import roofline
from day0.render.table import facts, mark, stack, table, verdict
from day0.spec.reports.plan_memory import CardRow, PlanMemoryReport

BAR = 60  # columns of a full card


def plan_memory(report: PlanMemoryReport) -> RenderableType:
    """Verdict, card, state, capacity, reasons."""
    return stack(
        head(report),
        reasons(report) if report.reasons else None,
        cards(report),
        Text(),
        bill(fullest(report), report.machine.memory),
        Text(),
        facts(figures(report)),
        Text(),
        pools(report),
        Text(),
        stack(roofline(report.roofline), Text()) if report.roofline else None,
        stack(variants(report.what_if), Text()) if report.what_if else None,
        stack(residuals(report.calibration), Text()) if report.calibration else None,
        Text("\n".join(report.assumptions), style="dim"),
    )


def head(report: PlanMemoryReport) -> RenderableType:
    load, machine = report.workload, report.machine
    fits = report.verdict == "fits"
    lacks = -fullest(report).free
    cards = f"{len(report.per_card)} × {machine.card}" + (f": {size(lacks)} a card too few" if lacks > 0 else "")
    asked = f"{load.batch} sequences of {tokens(load.context)} tokens · {load.dtype} · weights {load.weights}"
    asked += f" · images of up to {load.image_patches} patches" if load.sees else ""
    least = Text(f"its bytes need at least {report.cards} such cards") if lacks > 0 else None
    return stack(verdict(f"{report.model.name} {report.verdict} on {cards}", fits), Text(asked), least, Text())


def fullest(report: PlanMemoryReport) -> CardRow:
    """The card with the least left."""
    return min(report.per_card, key=lambda card: card.free)


def cards(report: PlanMemoryReport) -> Table:
    """One bar a card, those that hold the same once."""
    made = Table.grid(padding=(0, 1))
    for name, card in alike(report.per_card):
        left = f"{size(card.free)} free" if card.free >= 0 else f"{size(-card.free)} short"
        made.add_row(f"card {name}", bar(card, report.machine.memory, BAR), left)
    return made


def bill(card: CardRow, memory: int) -> Table:
    """One line for each part of a card, with its share of the memory and its colour."""
    made = table("", "part", "memory", "share", right=("memory", "share"))
    for name, colour in PARTS.items():
        count = getattr(card, name)
        if count:
            made.add_row(Text("█", style=colour), name, size(count), share(count, memory))
    made.add_section()
    word = "free" if card.free >= 0 else "short"
    made.add_row("", word, size(abs(card.free)), share(abs(card.free), memory), style="bold" if card.free >= 0 else "bold red")
    made.add_row("", "card", size(memory), "")
    return made


def share(count: int, memory: int) -> str:
    return f"{100 * count / memory:.1f} %"


def figures(report: PlanMemoryReport) -> list[tuple[str, str]]:
    """How far it goes, in words."""
    load, capacity, state = report.workload, report.capacity, report.state
    sequence = f" and {size(state.bytes_per_sequence)} a sequence" if state.bytes_per_sequence else ""
    stored = sum(group.stored for group in report.groups)
    return [
        ("released weights", f"{size(stored)} ({stored / 1e9:.2f} GB)"),
        ("state", f"{state.bytes_per_token} bytes a token{sequence}; {state.pages} pages of {state.page_size} tokens"),
        ("longest context at batch 1", f"{tokens(capacity.max_context)} (released for {tokens(report.model.context)})"),
        (f"largest batch at {tokens(load.context)}", str(capacity.max_batch)),
        ("tokens that fit at once", tokens(capacity.tokens)),
    ]


def pools(report: PlanMemoryReport) -> Table:
    made = table("state", "kind", "layers", "entry", "bytes", right=("layers", "entry", "bytes"))
    for pool in report.state.pools:
        made.add_row(pool.name, pool.kind, str(pool.layers), f"{pool.entry_bytes} B", size(pool.bytes))
    return made


def reasons(report: PlanMemoryReport) -> Table:
    made = Table.grid(padding=(0, 1))
    for row in report.reasons:
        hint = f"\n{row.hint}" if row.hint else ""
        made.add_row(mark(row.status), Text(f"{row.subject}: {row.found}; {row.expected} ({row.code}){hint}"))
    made.add_row()
    return made
