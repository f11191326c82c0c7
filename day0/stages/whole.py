"""The rung of the model: all layers one after the other, from where an earlier run stopped; an image; what a feature changes in the logits."""

from collections.abc import Iterator
from functools import partial

from day0.community.compare_image import Sight
from day0.community.compare_model import Passes
from day0.community.switch import compare_switched
from day0.spec.errors import Day0Error
from day0.spec.evidence import Evidence, Uncompared
from day0.stages.layers import Task, chosen, recall
from day0.stages.pictures import draw, open_eye
from day0.stages.verdict import fails

NAME = "model"  # of what is saved between layers


def compare_whole(task: Task) -> Iterator[Evidence]:
    """Evidence for the stream after each layer, the last norm, the logits, an image, and the feature that is turned on layer by layer."""
    yield from _text(task)
    if task.plan.workload.sees and task.bench.opens is None:
        task.progress("image", 0, 1)
        yield from task.journal.evidence("model image", partial(_image, task))
        task.progress("image", 1, 1)
    if task.switch:
        yield compare_switched(task.bench, task.switch, task.ids, progress=task.progress, memo=task.journal.value)


def _text(task: Task) -> Iterator[Evidence]:
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
    yield from journal.evidence("model norm", passes.norm)
    yield from journal.evidence("model logits", passes.logits)


def _image(task: Task) -> Iterator[Evidence]:
    """The tower, and the logits of a prompt with an image."""
    try:
        sight = Sight(task.bench, task.plan.workload, draw(open_eye(task.bench.release), task.plan.workload.image_patches), task.ids)
    except (Day0Error, ModuleNotFoundError) as error:
        yield _blind(f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error))
        return
    if sight.given is None:
        yield _blind(f"{type(sight.references[next(iter(sight.references))].model).__name__} is given images in another way")
        return
    for one in sight.tower():
        yield sight.located(one) if one.dtype == "float32" and fails(one) else one
    yield from sight.logits()


def _blind(why: str) -> Uncompared:
    return Uncompared(layer=None, part="tower", rung="model", what="a prompt with an image", why=why)
