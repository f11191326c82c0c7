"""What was drafted, and what a person has to look at."""

from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from day0.render.table import stack, table
from day0.stages.unknown import Unknown


def new(paths: list[Path], found: Unknown | None) -> RenderableType:
    """The files; for a family how close the closest is, and every list of what is unknown."""
    written = Text("\n".join(f"wrote {shortest(path)}" for path in paths), style="bold")
    if found is None:
        return written
    closest = found.closest
    shown = table("unknown", "lines", "first", right=("lines",))
    for name, lines in lists(found).items():
        shown.add_row(name, str(len(lines)), Text(lines[0] if lines else "–"))
    near = Text(f"closest known family: {closest} · {closest.wanted - closest.missing} of {closest.wanted} kinds of weights found")
    return stack(written, near, shown)


def shortest(path: Path) -> Path:
    """Relative to the folder that one is in, where it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def lists(found: Unknown) -> dict[str, list[str]]:
    return {
        "keys that are required and absent": [key + near for key, near in found.absent.items()],
        "keys that nobody reads": [f"{key} = {value}" for key, value in found.unread.items()],
        "weights without a tensor": found.missing,
        "tensors of another shape": found.misfits,
        "tensors that nothing claims": found.unclaimed,
    }
