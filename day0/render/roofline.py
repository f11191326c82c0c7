"""Bounds on speed as a person reads them."""

from rich.console import RenderableType
from rich.text import Text

from day0.render.numbers import size
from day0.render.table import stack, table
from day0.spec.reports.roofline import Roofline


def roofline(found: Roofline) -> RenderableType:
    """One line a phase; without seconds where a figure of the machine cannot be trusted."""
    numbers = ("step", "weights", "state", "between cards")
    made = table("bound", *numbers, "experts", "tokens/s", "limit", right=numbers)
    for row in found.phases:
        speed = "unknown" if row.rate is None else f"{row.rate[0]:,.0f} usual, {row.rate[1]:,.0f} best"
        experts = f"{row.experts:.0f}" if row.experts else ""
        cells = (size(row.weight_bytes), size(row.state_bytes), size(row.collective_bytes), experts, speed, row.limit or "")
        made.add_row(row.phase, f"{row.tokens} tokens", *cells)
    lines = [found.unknown, *found.assumptions] if found.unknown else found.assumptions
    if found.prediction:
        lines = [*lines, f"{found.prediction} extra prediction layers guess ahead; no figure counts on it"]
    return stack(made, Text("\n".join(lines), style="dim"))
