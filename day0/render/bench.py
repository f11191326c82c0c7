"""Times of implementations, as a person reads them."""

from rich.console import RenderableType
from rich.text import Text

from day0.render.numbers import seconds
from day0.render.table import table
from day0.stages.bench import Timing


def bench(timings: list[Timing]) -> RenderableType:
    """One line for each implementation and case; the reference is what others are compared with."""
    base = {one.case: one.seconds for one in timings if one.name == "reference"}
    made = table("implementation", "case", "time", "against the reference", right=("time", "against the reference"))
    for one in sorted(timings, key=lambda each: (each.case, each.seconds is None, each.seconds or 0)):
        if one.seconds is None:
            said = f"wrong, {one.wrong}" if one.wrong else f"refuses: {one.refused}"
            made.add_row(one.name, one.case, "", Text(said))
        else:
            own = base.get(one.case)
            made.add_row(one.name, one.case, seconds(one.seconds), f"{own / one.seconds:.1f}×" if own else "")
    return made
