"""Values over layers by powers of ten, drawn with characters."""

import math
from collections.abc import Mapping, Sequence

from rich.text import Text

WIDTH, HEIGHT = 72, 8  # cells of the drawing
MARKS = "●○▲△"  # of the series, in order
STYLES = ("cyan", "yellow", "magenta", "green")


def plot(series: Mapping[str, Mapping[int, float]], title: str) -> Text:
    """One mark a layer and series; where layers share a cell, the largest. What is zero or no number has no mark."""
    drawable = {name: {layer: value for layer, value in points.items() if 0 < value < math.inf} for name, points in series.items()}
    values = [value for points in drawable.values() for value in points.values()]
    if not values:
        return Text(f"{title}: nothing but zeros")
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    layers = sorted({layer for points in drawable.values() for layer in points})
    first, last = layers[0], layers[-1]
    width = min(WIDTH, max(last - first + 1, 8))
    grid: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(HEIGHT)]
    for place, points in enumerate(drawable.values()):
        for column, value in _columns(points, first, last, width).items():
            row = round((high - math.log10(value)) / (high - low) * (HEIGHT - 1))
            grid[row][column] = MARKS[place % len(MARKS)], STYLES[place % len(STYLES)]
    return _drawn(title, list(series), grid, (low, high), (first, last))


def _columns(points: Mapping[int, float], first: int, last: int, width: int) -> dict[int, float]:
    """Column → largest value of its layers."""
    found: dict[int, float] = {}
    for layer, value in points.items():
        column = (layer - first) * (width - 1) // max(1, last - first) if last - first >= width else layer - first
        found[column] = max(value, found.get(column, 0.0))
    return found


def _drawn(title: str, names: Sequence[str], grid: list[list[tuple[str, str]]], powers: tuple[int, int], ends: tuple[int, int]) -> Text:
    made = Text(f"{title}   ")
    for place, name in enumerate(names):
        made.append(f"{MARKS[place % len(MARKS)]} {name}   ", style=STYLES[place % len(STYLES)])
    for number, row in enumerate(grid):
        edge = f"1e{powers[1]:+03d}" if number == 0 else f"1e{powers[0]:+03d}" if number == len(grid) - 1 else ""
        made.append(f"\n{edge:>6} │")
        for mark, style in row:
            made.append(mark, style=style)
    first, last = str(ends[0]), str(ends[1])
    made.append(f"\n{'layer':>6} └{'─' * len(grid[0])}\n{'':8}{first}{last:>{max(1, len(grid[0]) - len(first))}}")
    return made
