"""The rung of the model: all layers one after the other, from where an earlier run stopped; then what a feature changes in its logits."""

from collections.abc import Iterator
from functools import partial

from day0.community.compare_model import Passes
from day0.community.switch import compare_switched
from day0.spec.evidence import Evidence
from day0.stages.layers import Task, chosen, recall

NAME = "model"  # of what is saved between layers


def compare_whole(task: Task) -> Iterator[Evidence]:
    """Evidence for the stream after each layer, for the logits, and for the feature that is turned on layer by layer."""
    bench, journal = task.bench, task.journal
    passes, layers, saved = Passes(bench, task.ids), bench.truth.layers, journal.saved(NAME)
    begin = 0 if saved is None else saved[0] + 1
    if saved is None:
        passes.embed()
    else:
        recall(bench, saved[1], saved[2])
        passes.restore(saved[1])
    for place in range(layers):
        task.progress("model", place, layers)
        yield from journal.evidence(f"model {place}", partial(passes.go, place), again=place >= begin)
        if place >= begin:
            tensors, nothing = chosen(bench)
            journal.save(NAME, place, passes.tensors() | tensors, nothing)
    task.progress("model", layers, layers)
    yield from journal.evidence("model logits", passes.logits)
    if task.switch:
        yield compare_switched(bench, task.switch, task.ids, progress=task.progress, memo=journal.value)
