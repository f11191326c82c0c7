"""Kinds of charts: bars with names, bars of parts, and lines over layers."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from day0.render.svg import box, chart, dot, line, text
from day0.spec.record import record

ROW, BAR = 46, 14  # pixels from one bar to the next, and of a bar below its name
PLOT, FOOT = 220, 28  # pixels of a plot, and of the axis below
LINE, GAP = 14, 6  # pixels from one share to the next, and more between groups of them
INSET = 4.0  # percent on the left and the right of a plot
LEAST = 0.35  # percent of a part that is there but too small to be seen
TICKS = 8  # layers that are named on an axis


@record
class Bar:
    """One amount."""

    name: str  # on the left, above it
    value: float  # its length
    said: str  # the amount in words, on the right
    look: str = "a1"  # class of its colour


@record
class Stack:
    """Amounts that make up a whole."""

    name: str  # on the left, above it
    said: str  # on the right
    parts: Sequence[tuple[str, float, str]]  # (words, amount, class of the colour)
    whole: float  # amount of all the width; what the parts leave is empty
    edge: float | None = None  # amount at which a line is drawn


@record
class Share:
    """A share that was estimated, with its interval."""

    name: str  # for the legend
    look: str  # class of its colour
    low: float  # 0 to 1
    value: float  # likewise
    high: float  # likewise
    said: str  # in words


@record
class Series:
    """One line over layers."""

    name: str  # for the legend
    look: str  # class of its colour
    points: Mapping[int, float]  # layer → value


def bars(rows: Sequence[Bar], description: str) -> Markup:
    """One below the other, the largest of all the width."""
    most = max((row.value for row in rows), default=0.0) or 1.0
    marks = []
    for place, row in enumerate(rows):
        top = place * ROW
        marks += _names(row.name, row.said, top)
        marks.append(box(0, top + 20, max(LEAST, 100 * row.value / most), BAR, f"mark {row.look}", f"{row.name}: {row.said}"))
    return chart(len(rows) * ROW - 10, description, marks)


def stacks(rows: Sequence[Stack], description: str) -> Markup:
    """One below the other, each cut into its parts."""
    marks = []
    for place, row in enumerate(rows):
        top, left = place * (ROW + 8), 0.0
        marks += [*_names(row.name, row.said, top), box(0, top + 20, 100, BAR + 10, "track")]
        for (words, amount, look), width in zip(row.parts, _widths(row), strict=True):
            if amount > 0:
                marks.append(box(left, top + 20, width, BAR + 10, f"mark part {look}", words))
                left += width
        if row.edge is not None and row.whole:
            at = 100 * row.edge / row.whole
            marks.append(line(at, top + 16, at, top + 48, "edge"))
    return chart(len(rows) * (ROW + 8) - 8, description, marks)


def shares(rows: Sequence[tuple[str, Sequence[Share]]], description: str) -> Markup:
    """Shares between nothing and all, those of one name together: a dot each, on the line of its interval."""
    marks, top = [], 0.0
    for name, found in rows:
        marks.append(text(0, top + 14, name, "name"))
        for place, one in enumerate(found, 2):
            y, at = top + place * LINE, [100 * min(1.0, max(0.0, share)) for share in (one.low, one.value, one.high)]
            marks += [line(0, y, 100, y, "grid"), line(at[0], y, at[2], y, f"course {one.look}")]
            marks.append(dot(at[1], y, f"mark {one.look}", f"{name}, {one.name}: {one.said}"))
        top += (len(found) + 2) * LINE + GAP
    marks += [text(at, top + 4, f"{at} %", "tick", anchor) for at, anchor in ((0, "start"), (50, "middle"), (100, "end"))]
    return chart(top + 8, description, marks)


def lines(series: Sequence[Series], last: int, description: str) -> Markup:
    """Values over layers 0 to `last`, by powers of ten; what is zero or no number has no point."""
    values = [value for one in series for value in one.points.values() if _drawable(value)]
    low = math.floor(math.log10(min(values))) if values else -8
    high = max(low + 1, math.ceil(math.log10(max(values)))) if values else 0
    marks = []
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        y = _height(10.0**power, low, high)
        marks += [line(0, y, 100, y, "grid"), text(0, y - 4, f"1e{power}", "tick")]
    for layer in ticks(last):
        marks.append(text(_across(layer, last), PLOT + 20, str(layer), "tick", "middle"))
    for one in series:
        marks += _course(one, last, low, high)
    return chart(PLOT + FOOT, description, marks)


def ticks(last: int) -> range:
    """Layers to be named: the first, then at steps that a person counts in."""
    steps = (step * 10**power for power in range(12) for step in (1, 2, 5))
    return range(0, last + 1, next(step for step in steps if last / step < TICKS))


def _widths(row: Stack) -> list[float]:
    """Percent of each part: what is there can be seen, and together they take no more than there is."""
    found = [max(LEAST, 100 * amount / row.whole) if amount > 0 and row.whole else 0.0 for _, amount, _ in row.parts]
    over = sum(found) - 100
    if over > 0:
        found[found.index(max(found))] -= over
    return found


def _names(name: str, said: str, top: float) -> list[Markup]:
    return [text(0, top + 14, name, "name"), text(100, top + 14, said, "said", "end")]


def _course(one: Series, last: int, low: int, high: int) -> list[Markup]:
    at = {layer: (_across(layer, last), _height(value, low, high)) for layer, value in sorted(one.points.items()) if _drawable(value)}
    joined = zip(at.items(), list(at.items())[1:], strict=False)
    drawn = [line(*start, *end, f"course {one.look}") for (first, start), (second, end) in joined if second == first + 1]
    return drawn + [dot(*place, f"mark {one.look}", f"layer {layer}, {one.name}: {one.points[layer]:.1e}") for layer, place in at.items()]


def _drawable(value: float) -> bool:
    return math.isfinite(value) and value > 1e-30


def _across(layer: int, last: int) -> float:
    return 3 * INSET + (100 - 4 * INSET) * (layer / last if last else 0.5)


def _height(value: float, low: int, high: int) -> float:
    return 16 + (PLOT - 24) * (high - math.log10(value)) / (high - low)
