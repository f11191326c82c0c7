"""The community executor with images: token for token what the engine says, and a text after an image is not shifted by it."""

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("PIL")

from day0.checkpoint.folder import Checkpoint
from day0.community.executor import Community
from day0.spec.errors import Day0Error
from day0.spec.request import Request
from tests.engine.opened import Answer, hear, run, start
from tests.vision.test_towers import prompt
from tests.vision.zoo import checkpoint


def requests(name: str) -> list[Request]:
    found = []
    for size in ((30, 30), (100, 40), (57, 83)):
        tokens, images = prompt(name, size)
        found.append(Request(id=str(size), tokens=tuple(tokens), images=tuple(images), max_new=8))
    return [*found, Request(id="text", tokens=(65, 66, 67), max_new=8)]


def community(name: str) -> Community:
    return Community.open(Checkpoint.open(checkpoint(name)), torch.float32, towers=True)


@pytest.mark.parametrize("name", ["glm5_next", "qwen3_vl_moe"])
def test_it_says_what_the_engine_says(name: str) -> None:
    executor, theirs = community(name), dict[str, Answer]()
    for request in requests(name):
        executor.add(request)
    while executor.busy:
        hear(theirs, executor.step())
    ours = run(start(checkpoint(name), vision=True, context=1024, batch=4), *requests(name))
    assert {id: answer.tokens for id, answer in theirs.items()} == {id: answer.tokens for id, answer in ours.items()}


def test_classes_that_take_pixels_otherwise_are_not_given_any() -> None:
    with pytest.raises(Day0Error, match="not given images of this family"):
        community("kimi_k25").add(requests("kimi_k25")[0])
