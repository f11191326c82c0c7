"""The rung of layers: each on the stream that the reference lets out of the layer before it, from where an earlier run stopped."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from day0.community.bench import Bench, draw
from day0.community.compare_layers import compare_layer, compare_rotary
from day0.community.descend import descend
from day0.community.statistics import dtype_name
from day0.community.switch import Feature
from day0.spec.evidence import CallEvidence, Evidence, LayerEvidence, Rung
from day0.spec.progress import Progress
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.stages.journal import Journal
from day0.stages.opening import Planned
from day0.stages.verdict import fails

Inputs = Literal["reference", "random"]
NAME = "layers"  # of what is saved between layers


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is compared, and with what."""

    bench: Bench
    layers: list[int]  #: to look at
    rungs: list[Rung]  #: from the bottom
    inputs: Inputs  #: where hidden states come from
    ids: list[int]  #: tokens of the sequence
    progress: Progress
    journal: Journal  #: what an earlier run measured
    plan: PlanMemoryReport  #: of the model's own type
    opening: Callable[[], Planned]  #: the model as it is served
    switch: Feature | None = None  #: what is turned on layer by layer on the rung "model"


def compare_all(task: Task) -> Iterator[Evidence]:
    """Evidence for every chosen layer, on the reference's stream or on drawn values."""
    yield from rotary(task)
    truth, drawn = task.bench.truth, task.inputs == "random"
    sources = {task.bench.release.model.layers[index].index_source for index in task.layers}
    last = max(task.layers) + 1
    stream_TD, handed, begin, found = _resume(task)
    for place in range(truth.layers):
        ours = task.bench.ours(place)
        if ours[0] >= last:
            break
        task.progress("layers", ours[0], last)
        if place < begin:
            yield from task.journal.evidence(f"layers {place}", lambda: ()) if set(ours) & set(task.layers) else ()
            continue
        if set(ours) & set(task.layers):
            stream_TD = draw(place, stream_TD) if drawn else stream_TD
            measure = _Layer(task, place, stream_TD, handed, found)
            told = task.journal.evidence(f"layers {place}", measure, again=True)
            found = found or any(isinstance(one, CallEvidence) for one in told)
            yield from told
            run = measure.run
        elif not drawn or sources & set(ours):
            run = truth.layer(place, draw(place, stream_TD) if drawn else stream_TD, ids=task.ids, handed=handed)
        else:
            continue
        stream_TD, handed = run.hidden_TD, run.handed
        _save(task, place, stream_TD, handed, found)
    task.progress("layers", last, last)


class _Layer:
    """One layer of the reference: evidence when called, then what the reference made of it."""

    def __init__(self, task: Task, place: int, stream_TD: Tensor, handed: Tensor | None, found: bool) -> None:
        self._task, self._place, self._stream, self._handed, self._found = task, place, stream_TD, handed, found
        self.run: Any = None

    def __call__(self) -> Iterator[Evidence]:
        bench, ids = self._task.bench, self._task.ids
        evidence, self.run = compare_layer(bench, self._place, self._stream, ids, self._handed)
        yield from evidence
        wrong = [one for one in evidence if isinstance(one, LayerEvidence) and one.dtype == "float32" and fails(one)]
        if wrong and not self._found:
            call = descend(bench, self._place, self._stream, ids, self._handed, wrong[0].part)
            if call:
                yield call


def rotary(task: Task) -> Iterator[Evidence]:
    """Each rotation that the chosen layers use, once."""
    model, seen = task.bench.release.model, set()
    span = len(model.layers) // task.bench.truth.layers
    for index in task.layers:
        rope = getattr(model.layers[index].mixer, "rope", None)
        if rope is not None and rope not in seen:
            seen.add(rope)
            table = task.bench.probes[torch.float32].rotary
            yield compare_rotary(task.bench.truth, index // span, index, rope, table, model.context)


def _save(task: Task, place: int, stream_TD: Tensor, handed: Tensor | None, found: bool) -> None:
    """All that the next layer needs."""
    tensors, nothing = chosen(task.bench)
    tensors |= {"stream": stream_TD} | ({} if handed is None else {"handed": handed})
    task.journal.save(NAME, place, tensors, {"nothing": nothing, "found": found})


def _resume(task: Task) -> tuple[Tensor, Tensor | None, int, bool]:
    """(stream, what is handed on, first layer to compare, whether the first wrong operator was found)."""
    saved = task.journal.saved(NAME)
    if saved is None:
        return task.bench.truth.embed(task.ids), None, 0, False
    place, tensors, notes = saved
    recall(task.bench, tensors, notes["nothing"])
    device, handed = task.bench.probes[torch.float32].device, tensors.get("handed")
    return tensors["stream"].to(device), None if handed is None else handed.to(device), place + 1, notes["found"]


def chosen(bench: Bench) -> tuple[dict[str, Tensor], list[str]]:
    """What our layers chose to read so far, for those that reuse it; and where they chose nothing."""
    tensors, nothing = dict[str, Tensor](), list[str]()
    for dtype, probe in bench.probes.items():
        for key, choice in probe.choices().items():
            name = " ".join(("chosen", dtype_name(dtype), *map(str, key)))
            if choice is None:
                nothing.append(name)
            else:
                tensors[name] = choice
    return tensors, nothing


def recall(bench: Bench, tensors: dict[str, Tensor], nothing: list[str]) -> None:
    """Take up what `chosen` gave."""
    probes = {dtype_name(dtype): probe for dtype, probe in bench.probes.items()}
    for name, choice in [*tensors.items(), *((name, None) for name in nothing)]:
        if name.startswith("chosen "):
            _, dtype, layer, start, count = name.split()
            probe = probes[dtype]
            probe.recall({(int(layer), int(start), int(count)): None if choice is None else choice.to(probe.device)})
