"""Texts and images of any length in one batch: each request gets what it gets alone, in exactly the state that was planned."""

from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

from day0.engine.batch import Engine
from day0.spec.errors import Day0Error
from day0.spec.request import Request
from tests.engine.opened import hear, run, start
from tests.vision.drawn import drawn
from tests.vision.test_towers import IMAGE, checkpoint, eye, place, prompt

CONTEXT, BATCH = 64, 16
SIZES = [(30, 30), (11, 61), (100, 40), (1, 1), (8, 8), (25, 17), (64, 64), (16, 90)]


def requests(name: str) -> list[Request]:
    """Eight with an image each, eight without, in turn; each fills the context to its end."""
    made = []
    for i in range(BATCH):
        tokens, images = prompt(name, SIZES[i // 2]) if i % 2 else ([280, *range(60, 63 + 2 * i)], ())
        made.append(Request(id=str(i), tokens=tuple(tokens), max_new=CONTEXT - len(tokens), images=images))
    return made


def opened(name: str) -> Engine:
    return start(checkpoint(name), vision=True, context=CONTEXT, batch=BATCH, chunk=20)


@pytest.mark.parametrize("name", ["qwen3_vl_moe", pytest.param("glm5_next", marks=pytest.mark.slow)])
def test_sixteen_requests_are_answered_as_alone(name: str) -> None:
    engine, asked = opened(name), requests(name)
    assert sum(bool(request.images) for request in asked) == 8
    assert len({len(request.tokens) for request in asked}) > 8
    together: dict[str, Any] = {}
    peak = 0.0
    for request in asked:
        engine.add(request)
    while engine.busy:
        hear(together, engine.step())
        peak = max(peak, engine.usage)
    card, account = engine.plan.per_card[0], engine.account()
    assert peak == 1.0 and (account["state"], account["weights"], account["images"]) == (card.state, card.weights, card.images)
    assert account["activations"] <= card.activations
    alone = opened(name)
    for request in asked:
        assert run(alone, request)[request.id].tokens == together[request.id].tokens, request.id


def test_an_image_that_comes_again_is_not_encoded_again() -> None:
    engine, (tokens, images) = opened("glm5_next"), prompt("glm5_next", (30, 30))
    first = run(engine, Request(id="a", tokens=tuple(tokens), max_new=4, images=images))["a"].tokens
    assert engine.forward.vision is not None and engine.forward.vision.encoded == 1
    assert run(engine, Request(id="b", tokens=tuple(tokens), max_new=4, images=images))["b"].tokens == first
    assert engine.forward.vision.encoded == 1


def test_images_that_do_not_fit_are_encoded_again_and_right() -> None:
    """The room for embeddings is bounded; what falls out is computed anew."""
    engine = opened("qwen3_vl_moe")
    vision = engine.forward.vision
    assert vision is not None
    asked = [Request(id=r.id, tokens=r.tokens, max_new=3, images=r.images) for r in requests("qwen3_vl_moe") if r.images][:3]
    answers = [run(engine, request)[request.id].tokens for request in asked]
    vision.capacity = max(one.bytes for one in vision._kept.values())
    vision._kept.clear()
    assert [run(engine, request)[request.id].tokens for request in asked * 2] == answers * 2
    assert sum(one.bytes for one in vision._kept.values()) <= vision.capacity and vision.encoded > 2 * len(asked)


def test_prompts_that_differ_in_an_image_share_no_state() -> None:
    """Pages are shared up to the first image that differs, whatever its tokens are."""
    engine = opened("qwen3_vl_moe")
    tokens, images = prompt("qwen3_vl_moe", (32, 32))
    other = place([280, 65, 66, IMAGE + 1, IMAGE, IMAGE + 2, *range(70, 74)], [eye("qwen3_vl_moe").see(drawn((32, 32)).rotate(90))], IMAGE)
    assert other[0] == tokens
    asked = [Request(id=str(i), tokens=tuple(tokens), max_new=12, images=one) for i, one in enumerate((images, other[1], images))]
    alone = [run(engine, request)[request.id].tokens for request in asked]
    engine.add(asked[0])
    found: dict[str, Any] = {}
    hear(found, engine.step())
    hear(found, engine.step())
    for request in asked[1:]:
        engine.add(request)
    while engine.busy:
        hear(found, engine.step())
    assert [found[str(i)].tokens for i in range(3)] == alone and alone[0] != alone[1]


def test_an_image_beyond_the_plan_is_refused() -> None:
    engine = start(checkpoint("glm5_next"), vision=True, context=CONTEXT, batch=1, image_tokens=10)
    tokens, images = prompt("glm5_next", (100, 40))
    with pytest.raises(Day0Error, match=r"an image has 96 patches; the plan takes up to 40"):
        engine.add(Request(id="a", tokens=tuple(tokens), max_new=1, images=images))
    blind = start(checkpoint("glm5_next"), context=CONTEXT, batch=1)
    with pytest.raises(Day0Error, match="this plan takes no images"):
        blind.add(Request(id="a", tokens=tuple(tokens), max_new=1, images=images))
