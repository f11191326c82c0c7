"""The stack of a release as a strip: one cell a layer, above what mixes tokens, below what acts on each."""

from markupsafe import Markup

from day0.render.charts import ticks
from day0.render.inspect import kind
from day0.render.svg import box, chart, text
from day0.spec.record import record
from day0.spec.reports.inspect import InspectReport, LayerRow

HALF = 30  # pixels of half a cell
MIXERS, FFNS = ("a1", "a2", "a3", "a4"), ("a5", "a6", "a7", "a8")  # classes of colours, used again where there are more


@record
class Kind:
    """Layers that are alike."""

    name: str  # in words
    looks: tuple[str, str]  # classes of the upper and the lower half
    members: list[LayerRow]  # the layers themselves

    @property
    def layers(self) -> list[str]:
        """Their indices as ranges: 0–2, 5."""
        return ranges([layer.index for layer in self.members])

    @property
    def parameters(self) -> tuple[int, int]:
        """Of the smallest and the largest of them."""
        found = [layer.parameters for layer in self.members]
        return min(found), max(found)

    @property
    def bytes(self) -> int:
        return sum(layer.bytes for layer in self.members)


def kinds(report: InspectReport) -> list[Kind]:
    """In order of appearance."""
    mixers, ffns = (list(dict.fromkeys(getattr(layer, part) for layer in report.layers)) for part in ("mixer", "ffn"))
    alike: dict[str, list[LayerRow]] = {}
    for layer in report.layers:
        alike.setdefault(kind(layer), []).append(layer)
    found = []
    for name, layers in alike.items():
        upper, lower = layers[0].mixer, layers[0].ffn
        looks = (MIXERS[mixers.index(upper) % len(MIXERS)] if upper else "track", FFNS[ffns.index(lower) % len(FFNS)] if lower else "track")
        found.append(Kind(name=name, looks=looks, members=layers))
    return found


def strip(report: InspectReport) -> Markup:
    """The picture; its description tells the same in words."""
    found, count = kinds(report), len(report.layers)
    looks = {layer.index: (one.looks, one.name) for one in found for layer in one.members}
    marks = []
    for place, layer in enumerate(report.layers):
        left, width = 100 * place / count, 100 / count
        for half, look in enumerate(looks[layer.index][0]):
            marks.append(box(left, half * HALF, width, HALF, f"mark cell {look}", f"layer {layer.index}: {looks[layer.index][1]}"))
    marks += [text(100 * (index + 0.5) / count, 2 * HALF + 18, str(index), "tick", "middle") for index in ticks(count - 1)]
    words = "; ".join(f"layers {', '.join(one.layers)}: {one.name}" for one in found)
    return chart(2 * HALF + 24, f"{count} layers. {words}", marks)


def ranges(indices: list[int]) -> list[str]:
    """Whole numbers in order, as a person writes them."""
    found: list[list[int]] = []
    for index in indices:
        if found and index == found[-1][1] + 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return [f"{first}–{last}" if last > first else str(first) for first, last in found]
