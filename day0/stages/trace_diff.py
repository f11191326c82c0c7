"""`day0 diff` of two traces, or of a trace and what another program dumped: the first tensor whose error stands out.

Exit codes of the command: 0 no error stands out; 1 one does; 2 they cannot be compared.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from day0.spec.errors import Day0Error
from day0.spec.ops import ROUNDOFF
from day0.spec.reports.trace import TraceDiffReport, TraceDiffRow, TraceReport
from day0.stages.rank_dumps import RankDumps
from day0.stages.trace import REPORT, VALUES, Key, key, sample

JUMP = 10.0  # times the largest error before: an error stands out
ALIGNED = 0.1  # of the error as it stands: another way to read a dump is better
PARTS = ("embed", "mixer", "ffn", "stream", "logits")  # in the order in which a layer computes them; other names before the stream

@dataclass
class Trace:
    """What was kept of one pass."""

    name: str
    values: dict[Key, Tensor]  # flattened; all of a tensor, or a sample
    shapes: dict[Key, list[int]]  # of the whole tensors
    report: TraceReport | None = None  # None for the dump of another program
    ranks: RankDumps | None = None  # what each of several ranks dumped; there are no values then

    @classmethod
    def open(cls, place: Path) -> "Trace":
        """A folder that `day0 trace` wrote; or a safetensors file with tensors "3.stream", "3.hidden" and "3.residual", "logits"; or a
        folder with such a file of each rank.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        ranks = RankDumps.open(place)
        if ranks:
            return cls(f"{place.name}, {len(ranks.tensors)} ranks", {}, {}, ranks=ranks)
        file = place / VALUES if place.is_dir() else place
        try:
            found = {key(name): value for name, value in load_file(file).items()}
        except (SafetensorError, OSError) as error:
            raise Day0Error(f"not a trace: {error}", file, hint="run `day0 trace` to make one") from None
        if not place.is_dir():
            return cls(place.name, {k: v.flatten() for k, v in found.items()}, {k: list(v.shape) for k, v in found.items()})
        report = TraceReport.read(place / REPORT)
        shapes = {(row.layer, row.part): row.shape for row in report.rows}
        if found.keys() != shapes.keys():
            raise Day0Error("trace.yaml and trace.safetensors are of different traces", place, hint="run `day0 trace` again")
        return cls(f"{report.executor} in {report.dtype}", found, shapes, report)

    @property
    def unit(self) -> float:
        """Roundoff of the type it was computed in."""
        types = {str(value.dtype).removeprefix("torch.") for value in (self.ranks.tensors[0] if self.ranks else self.values).values()}
        return max((ROUNDOFF[dtype] for dtype in (types if self.report is None else {self.report.dtype}) if dtype in ROUNDOFF), default=0.0)


def explained(unit: float) -> float:
    """Relative error that passing through a model in a type of this roundoff explains."""
    return max(8 * unit, 1e-4)


def diff_traces(one: Trace, other: Trace) -> TraceDiffReport:
    """Line B up with A, then look at every tensor that both have."""
    if one.report and other.report and one.report.ids_sha256 != other.report.ids_sha256:
        raise Day0Error("the traces are of other token ids", hint="trace the same prompt twice")
    if one.ranks:
        raise Day0Error("A is of several ranks", hint="the trace of one card comes first: day0 diff CARD RANKS")
    together = _together(one, other)
    values, notes = _aligned(one, together[0])
    limit = explained(max(one.unit, other.unit))
    rows = [TraceDiffRow(layer=layer, part=part, error=error, values=count) for (layer, part), error, count in _errors(one, values)]
    if not rows:
        raise Day0Error("the traces have no tensor in common", hint="tensors are named 3.stream, 3.mixer, logits")
    first, largest = None, 0.0
    for row in rows:
        error = math.inf if row.error is None else row.error
        if error > max(limit, JUMP * largest):
            k = (row.layer, row.part)
            row.rank = other.ranks.blame(k, one.shapes, one.values[k]) if other.ranks and k in other.ranks.tensors[0] else None
            first = row
            break
        largest = max(largest, error)
    return TraceDiffReport(
        verdict="different" if first else "same", before=one.name, after=other.name, notes=[*together[1], *notes], explained=limit,
        first=first, rows=rows,
    )  # fmt: skip


def _together(one: Trace, other: Trace) -> tuple[Trace, list[str]]:
    """B as one card would have dumped it, and how its ranks share it."""
    if other.ranks is None:
        return other, []
    whole, notes = other.ranks.together(one.shapes, one.values)
    return Trace(other.name, {k: v.flatten() for k, v in whole.items()}, {k: list(v.shape) for k, v in whole.items()}), notes


def _aligned(one: Trace, other: Trace) -> tuple[Mapping[Key, tuple[Tensor, list[int]]], list[str]]:
    """B's tensors under A's names: engines keep the stream in two parts, and dumps are taken a layer early or late."""
    plain = {k: (value, other.shapes.get(k, [])) for k, value in other.values.items()}
    ways: list[tuple[str, Mapping[Key, tuple[Tensor, list[int]]]]] = [("", plain)]
    layers = {layer for layer, part in plain if part == "hidden" and (layer, "residual") in plain}
    if layers:
        alone = {(layer, "stream"): plain[layer, "hidden"] for layer in layers}
        summed = {(layer, "stream"): (plain[layer, "hidden"][0] + plain[layer, "residual"][0], plain[layer, "hidden"][1]) for layer in layers}
        ways = [("", plain | alone), ("the stream of B is hidden + residual", plain | summed)]
    tried = []
    for said, values in ways:
        for shift in (0, -1, 1):
            moved = {(None if layer is None else layer + shift, part): value for (layer, part), value in values.items()}
            errors = [math.inf if error is None else error for k, error, _ in _errors(one, moved) if k[0] is not None and k[1] == "stream"]
            notes = [said] if said else []
            if shift:
                notes.append(f"layer i of B equals layer i{shift:+d} of A: capture offset")
            tried.append((median(errors) if len(errors) > 1 else math.inf, notes, moved))
    best = min(tried, key=lambda way: way[0])
    return (best[2], best[1]) if best[0] < ALIGNED * tried[0][0] else (tried[0][2], tried[0][1])


def _errors(one: Trace, values: Mapping[Key, tuple[Tensor, list[int]]]) -> Iterator[tuple[Key, float | None, int]]:
    for k, mine in sorted(one.values.items(), key=lambda entry: _place(entry[0])):
        if k in values:
            theirs, shape = values[k]
            if math.prod(one.shapes[k]) != math.prod(shape):
                yield k, None, 0
                continue
            ours, right = (value if value.numel() == min(mine.numel(), theirs.numel()) else sample(value) for value in (mine, theirs))
            yield k, _error(ours.double(), right.double()), ours.numel()


def _place(k: Key) -> tuple[float, int]:
    """In the order of the pass."""
    layer, part = k
    outside = -1.0 if part == "embed" else math.inf
    return outside if layer is None else layer, PARTS.index(part) if part in PARTS else PARTS.index("stream") - 1


def _error(ours: Tensor, right: Tensor) -> float | None:
    """None where a value is finite on one side alone."""
    sound = torch.isfinite(right)
    if not torch.equal(sound, torch.isfinite(ours)):
        return None
    ours, right = ours[sound], right[sound]
    size, apart = float(right.norm()), float((ours - right).norm())
    return apart / size if size else (math.inf if apart else 0.0)
