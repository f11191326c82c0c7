"""Sizes, counts and times as a person reads them."""

import math

BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
COUNTS = ("", "k", "M", "B", "T", "Q")


def size(count: float) -> str:
    """Bytes in binary units: 237.2 GiB."""
    return _scaled(count, 1024, BYTES, " ")


def count(number: float) -> str:
    """Parameters, tokens, operations in decimal units, three digits: 2.78T."""
    if abs(number) < 1000:
        return f"{number:g}"
    step = 0
    while abs(number) >= 999.5 and step < len(COUNTS) - 1:
        number, step = number / 1000, step + 1
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:.{digits}f}{COUNTS[step]}"


def tokens(number: int) -> str:
    """Lengths in binary thousands where they are whole: 128k is 131072."""
    return f"{number // 1024}k" if number and number % 1024 == 0 else f"{number:,}".replace(",", " ")


def seconds(time: float) -> str:
    """A duration with three digits: 12.3 ms, 4.56 s, 3 min 20 s; a dash for what is no number."""
    if not math.isfinite(time):
        return "–"
    if time < 1e-3:
        return f"{time * 1e6:.0f} µs"
    if time < 1:
        return f"{time * 1e3:.3g} ms"
    if time < 60:
        return f"{time:.3g} s"
    return f"{int(time // 60)} min {int(time % 60)} s"


def _scaled(number: float, base: int, units: tuple[str, ...], space: str) -> str:
    step = 0
    while abs(number) >= base and step < len(units) - 1:
        number, step = number / base, step + 1
    return f"{number:.0f}{space}{units[step]}" if step == 0 else f"{number:.1f}{space}{units[step]}"
