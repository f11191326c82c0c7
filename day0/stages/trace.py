"""`day0 trace`: what one pass computes, block by block, written down to be compared with another pass.

Reads the inspect, plan-memory and map-ops reports and the weights, a layer at a time. Leaves a folder with trace.yaml and trace.safetensors.
Exit codes of the command: 0 every value is finite; 1 some are not; 2 it could not run.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from day0.checkpoint.source import here
from day0.community.bench import Bench
from day0.community.follow import Seen, follow, follow_reference
from day0.community.statistics import dtype_name
from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.progress import Progress
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.reports.trace import TraceReport, TraceRow
from day0.stages.validate import mapped_for

SAMPLE = 4096  # values of a tensor that are kept unless all are
REPORT, VALUES = "trace.yaml", "trace.safetensors"
Executor = Literal["native", "community"]
Key = tuple[int | None, str]  # layer, part


class Keeper:
    """Writes down what it is shown, within `limit` bytes."""

    def __init__(self, layers: Collection[int], full: bool, limit: int) -> None:
        self._layers, self._full, self._limit = layers, full, limit
        self.rows: list[TraceRow] = []
        self.values: dict[str, Tensor] = {}
        self._bytes = 0

    def see(self, layer: int | None, part: str, seen: Tensor) -> None:
        """One tensor, copied before anything else can change it."""
        if layer is not None and layer not in self._layers:
            return
        kept = seen.detach().cpu().flatten().clone() if self._full else sample(seen.detach().flatten()).cpu().clone()
        self._bytes += kept.nbytes
        if self._bytes > self._limit:
            problem = f"the trace is larger than {self._limit >> 20} MiB"
            raise Day0Error(problem, hint="choose fewer --layers or tokens, leave out --full, or raise --limit")
        self.values[name(layer, part)] = kept
        self.rows.append(_row(layer, part, seen, kept.numel()))


def trace(
    bench: Bench, model: str, ids: Sequence[int], executor: Executor, layers: Collection[int], folder: Path, *, full: bool = False,
    limit: int = 1 << 30, progress: Progress,
) -> TraceReport:  # fmt: skip
    """Run `ids` once in the last type of `bench`, and write what the chosen layers and the ends computed to `folder`."""
    dtype = list(bench.maps)[-1]
    keeper = Keeper(layers, full, limit)
    for seen in _pass(bench, executor, dtype, ids, progress):
        keeper.see(*seen)
    _write(folder / VALUES, keeper.values)
    return TraceReport(
        verdict="broken" if any(row.broken for row in keeper.rows) else "finite",
        model=model,
        executor=executor,
        dtype=dtype_name(dtype),
        tokens=len(ids),
        ids_sha256=hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest(),
        full=full,
        rows=keeper.rows,
    )


def bench_of(inspected: InspectReport, plan: PlanMemoryReport, mapped: MapOpsReport, dtype: str) -> Bench:
    """The model of an inspect report, in one type."""
    release = Release.open(here(inspected.model.folder))
    release.require_complete()
    return Bench(release, {getattr(torch, dtype): mapped_for(inspected, plan, mapped, dtype)})


def sample(flat: Tensor) -> Tensor:
    """Some values at equal distances; all where there are few."""
    count = flat.numel()
    if count <= SAMPLE:
        return flat
    return flat[torch.arange(SAMPLE, device=flat.device) * count // SAMPLE]


def name(layer: int | None, part: str) -> str:
    """Key of a tensor in trace.safetensors: "3.mixer", "logits"."""
    return part if layer is None else f"{layer}.{part}"


def key(name: str) -> Key:
    """"3.mixer" → (3, "mixer")."""
    layer, _, part = name.partition(".")
    return (int(layer), part) if layer.isdecimal() and part else (None, name)


def _pass(bench: Bench, executor: Executor, dtype: torch.dtype, ids: Sequence[int], progress: Progress) -> Iterator[Seen]:
    if executor == "native":
        return follow(bench.probes[dtype], ids, progress)
    return follow_reference(bench.reference(dtype), len(bench.release.model.layers), ids, progress)


def _row(layer: int | None, part: str, seen: Tensor, kept: int) -> TraceRow:
    sound = torch.isfinite(seen)
    broken = int((~sound).sum())
    wide = torch.where(sound, seen, 0).double()
    good = max(1, seen.numel() - broken)
    return TraceRow(
        layer=layer, part=part, shape=list(seen.shape), rms=math.sqrt(float(wide.square().sum()) / good), mean=float(wide.sum()) / good,
        peak=float(wide.abs().max()) if wide.numel() else 0.0, broken=broken,
        first=int((~sound).flatten(1).any(1).int().argmax()) if broken else None, kept=kept,
    )  # fmt: skip


def _write(path: Path, values: dict[str, Tensor]) -> None:
    from safetensors.torch import save_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(values, path)
    except OSError as error:
        raise Day0Error(f"cannot write the trace: {error.strerror}", path) from None
