"""Marks of a chart that grows with its page: left and right in percent, up and down in pixels, colours by class (see style.css).

Every piece of text is escaped, and what cannot be seen is written out.
"""

from collections.abc import Iterable

from markupsafe import Markup

HIDDEN = {*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF, *range(0xD800, 0xE000)} - {10}
LEGIBLE = {code: f"\\u{code:04x}" for code in HIDDEN}  # controls, and marks that turn the direction of what follows


def legible(value: object) -> object:
    """A string in which every character is seen, or a line break; all else as it is."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else value.translate(LEGIBLE)


def chart(height: float, description: str, marks: Iterable[Markup]) -> Markup:
    """A picture of all the width there is, and `height` pixels; `description` stands for it where it is not seen."""
    inside = Markup("").join(marks)
    return Markup('<svg role="img" aria-label="{}" width="100%" height="{:.0f}">{}</svg>').format(legible(description), height, inside)


def box(left: float, top: float, width: float, height: float, look: str, told: str = "") -> Markup:
    """A filled rectangle; a mouse that rests on it is told."""
    title = Markup("<title>{}</title>").format(legible(told)) if told else ""
    return Markup('<rect class="{}" x="{:.3f}%" y="{:.1f}" width="{:.3f}%" height="{:.1f}">{}</rect>').format(
        look, left, top, max(0.0, width), height, title
    )


def line(x1: float, y1: float, x2: float, y2: float, look: str) -> Markup:
    return Markup('<line class="{}" x1="{:.3f}%" y1="{:.1f}" x2="{:.3f}%" y2="{:.1f}"/>').format(look, x1, y1, x2, y2)


def dot(x: float, y: float, look: str, told: str) -> Markup:
    return Markup('<circle class="{}" cx="{:.3f}%" cy="{:.1f}" r="3.5"><title>{}</title></circle>').format(look, x, y, legible(told))


def text(x: float, y: float, words: str, look: str = "", anchor: str = "start") -> Markup:
    """Words on the line `y`; `anchor` says which of their ends is at `x`."""
    return Markup('<text class="{}" x="{:.3f}%" y="{:.1f}" text-anchor="{}">{}</text>').format(look, x, y, anchor, legible(words))
