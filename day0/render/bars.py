"""A card's memory as one bar of parts, for a terminal."""

from collections.abc import Sequence

from rich.text import Text

from day0.spec.reports.plan_memory import CardRow

PARTS = {
    "weights": "#4477aa", "state": "#66ccee", "images": "#ee8866", "activations": "#228833", "workspace": "#ccbb44",
    "collectives": "#ee6677", "margin": "#aa3377",
}  # fmt: skip
FREE = "#dddddd"


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
