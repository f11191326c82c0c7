"""A card's memory as one bar of parts, for a terminal and as SVG."""

from collections.abc import Sequence
from html import escape

from rich.text import Text

from day0.render.numbers import size
from day0.spec.reports.plan_memory import CardRow

PARTS = {
    "weights": "#4477aa", "state": "#66ccee", "images": "#ee8866", "activations": "#228833", "workspace": "#ccbb44",
    "collectives": "#ee6677", "margin": "#aa3377",
}  # fmt: skip
FREE, SHORT = "#dddddd", "#cc3311"
WIDTH, HEIGHT, GAP, LABEL = 640, 22, 8, 70  # pixels of a bar, between bars, and of the text before one


def shares(card: CardRow, memory: int, columns: int) -> list[tuple[str, int]]:
    """(part, columns) that fill a bar; what there is gets at least one, what is free the rest. Where it is short nothing is free."""
    counts = {name: getattr(card, name) for name in PARTS if getattr(card, name)}
    whole = max(memory, sum(counts.values()))
    found = {name: max(1, round(columns * count / whole)) for name, count in counts.items()}
    while sum(found.values()) > columns:
        widest = max(found, key=lambda name: found[name])
        found[widest] -= 1
    rest = columns - sum(found.values())
    return [*found.items(), ("free", rest)] if rest else list(found.items())


def bar(card: CardRow, memory: int, columns: int) -> Text:
    """One line of blocks, one colour a part."""
    made = Text()
    for name, count in shares(card, memory, columns):
        made.append("░" * count if name == "free" else "█" * count, style=FREE if name == "free" else PARTS[name])
    return made


def alike(cards: Sequence[CardRow]) -> list[tuple[str, CardRow]]:
    """(numbers of the cards, one of them): neighbours that hold the same are shown once."""
    found: list[tuple[int, int, CardRow]] = []
    for index, card in enumerate(cards):
        if found and found[-1][2] == card:
            found[-1] = (found[-1][0], index, card)
        else:
            found.append((index, index, card))
    return [(f"{first}" if first == last else f"{first}-{last}", card) for first, last, card in found]


def svg(cards: Sequence[CardRow], memory: int) -> str:
    """The bars of all cards and what their colours mean, as one picture that needs nothing else."""
    rows = alike(cards)
    height = (len(rows) + 1) * (HEIGHT + GAP)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH}" height="{height}" font-family="sans-serif" font-size="12">']
    for row, (name, card) in enumerate(rows):
        lines += _bar(f"card {name}", card, memory, row * (HEIGHT + GAP))
    lines += _legend(rows[0][1], len(rows) * (HEIGHT + GAP))
    return "\n".join([*lines, "</svg>"])


def _bar(label: str, card: CardRow, memory: int, top: int) -> list[str]:
    whole = max(memory, card.needed)
    lines = [f'<text x="0" y="{top + 15}">{escape(label)}</text>']
    left = float(LABEL)
    free = max(0, card.free)
    for name, count, colour in [*((name, getattr(card, name), colour) for name, colour in PARTS.items()), ("free", free, FREE)]:
        width = WIDTH * count / whole
        title = f"<title>{escape(name)}: {escape(size(count))}</title>"
        lines.append(f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{HEIGHT}" fill="{colour}">{title}</rect>')
        left += width
    if card.free < 0:
        edge = LABEL + WIDTH * memory / whole
        lines.append(f'<line x1="{edge:.2f}" x2="{edge:.2f}" y1="{top}" y2="{top + HEIGHT}" stroke="{SHORT}" stroke-width="3"/>')
    return lines


def _legend(card: CardRow, top: int) -> list[str]:
    lines, left = [], LABEL
    for name, colour in [*PARTS.items(), ("free", FREE)]:
        lines.append(f'<rect x="{left}" y="{top + 4}" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{left + 14}" y="{top + 14}">{name}</text>')
        left += 24 + 7 * len(name)
    return lines
