"""Images through the engine's towers and into its prompts, against transformers on the same weights and pixels."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("PIL")

from day0.engine.batch import Engine
from day0.engine.eye import Eye, place
from day0.engine.release import Release
from day0.engine.score import score
from day0.engine.tokenizer import Tokenizer
from day0.spec.picture import Picture
from tests.engine.opened import start
from tests.vision.drawn import drawn
from tests.vision.zoo import IMAGE, SEEING, checkpoint, model_of, right

SIZES = [(30, 30), (11, 61), (100, 40), (1, 1)]
TOLERANCE = 1e-4  # of the range


@cache
def model(name: str) -> Any:
    return model_of(name, checkpoint(name))


@cache
def eye(name: str) -> Eye:
    folder = checkpoint(name)
    encoder = Release.open(folder).model.encoder
    assert encoder is not None
    return Eye.open(folder, encoder, Tokenizer.open(folder).id)


@cache
def picture(name: str, size: tuple[int, int]) -> Picture:
    return eye(name).see(drawn(size))


@cache
def engine(name: str) -> Engine:
    return start(checkpoint(name), vision=True, context=400, batch=4)


def prompt(name: str, *sizes: tuple[int, int]) -> tuple[list[int], Any]:
    """Text, an image, text, and so on."""
    tokens = [280, 65, 66]
    for size in sizes:
        tokens += [IMAGE + 1, IMAGE, IMAGE + 2, *range(70, 70 + size[0] % 7)]
    return place(tokens, [picture(name, size) for size in sizes], IMAGE)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / (expected.max() - expected.min()))


@pytest.mark.parametrize("name", SEEING)
def test_features_and_logits(name: str) -> None:
    """One image at a time, and both of a prompt, at once and in chunks that cut images, read by one path or both."""
    opened, vision = engine(name), engine(name).forward.vision
    assert vision is not None
    tokens, placed = prompt(name, SIZES[1], SIZES[2])
    features, logits = right(model(name), tokens, [one.picture for one in placed])
    for one, expected in zip(placed, features, strict=True):
        assert error(vision.encode(one.picture).embeddings_ND, expected) < TOLERANCE
    for manner in ({}, {"chunk": 7}, {"decode_from": placed[0].start + 2}):
        (found,) = score(opened.forward, opened.state, [tokens], images=[placed], **manner)
        assert error(found, logits) < TOLERANCE, manner


@pytest.mark.parametrize("name", SEEING)
def test_a_ragged_batch_of_texts_and_images(name: str) -> None:
    prompts = [prompt(name, SIZES[0]), ([280, 65, 66, 67, 68], ()), prompt(name, *SIZES[1:]), prompt(name, SIZES[3])]
    opened = engine(name)
    found = score(opened.forward, opened.state, [tokens for tokens, _ in prompts], images=[placed for _, placed in prompts])
    for (tokens, placed), logits in zip(prompts, found, strict=True):
        assert error(logits, right(model(name), tokens, [one.picture for one in placed])[1]) < TOLERANCE


@pytest.mark.parametrize("name", SEEING)
def test_an_image_changes_what_is_said(name: str) -> None:
    """Another image behind the same tokens is another prompt; what stands before it, read in a step of its own, is the same to the bit."""
    opened, (tokens, placed) = engine(name), prompt(name, (30, 30))
    other = eye(name).see(drawn((30, 30)).transpose(1))
    again = place([280, 65, 66, IMAGE + 1, IMAGE, IMAGE + 2, *range(70, 72)], [other], IMAGE)
    assert again[0] == tokens
    start = placed[0].start
    one, two = (score(opened.forward, opened.state, [tokens], images=[seen], chunk=start)[0] for seen in (placed, again[1]))
    assert torch.equal(one[:start], two[:start]) and not torch.allclose(one[start + 1 :], two[start + 1 :], atol=1e-3)


@pytest.mark.parametrize("name", SEEING)
def test_plan_and_engine_agree_to_the_byte(name: str) -> None:
    opened = engine(name)
    card, account = opened.plan.per_card[0], opened.account()
    assert (card.weights, card.state, card.images) == (account["weights"], account["state"], account["images"])
    assert account["activations"] <= card.activations
    blind = start(checkpoint(name), context=400, batch=4)
    tower = next(pool.bytes for pool in opened.plan.weights if pool.name == "towers")
    assert blind.account()["weights"] == account["weights"] - tower and "images" not in blind.account()


def test_placeholders_that_nothing_stands_behind() -> None:
    """A text that holds ids of images and videos: the class embeds them as another token."""
    name = "kimi_k25"
    folder = checkpoint(name)
    placeholders = [token for token in Release.open(folder).model.placeholders if token < model(name).config.text_config.vocab_size]
    assert placeholders
    blind = start(folder, context=400, batch=1)
    tokens = [280, 65, *placeholders, 66, 67]
    with torch.no_grad():
        expected = model(name)(input_ids=torch.tensor([tokens])).logits[0]
    assert error(score(blind.forward, blind.state, [tokens])[0], expected) < TOLERANCE


def test_streamed_weights_see_the_same() -> None:
    name = "glm5_next"
    streamed = start(checkpoint(name), vision=True, context=400, batch=4, weights="streamed")
    tokens, placed = prompt(name, SIZES[2])
    pair = [score(one.forward, one.state, [tokens], images=[placed])[0] for one in (engine(name), streamed)]
    assert torch.equal(*pair)
    assert streamed.account()["weights"] == streamed.plan.per_card[0].weights


def test_every_call_of_a_tower_is_mapped_and_every_mapped_one_is_made() -> None:
    from day0.engine.bind import Bound
    from day0.engine.packed import Workspace
    from day0.engine.vision import Vision
    from tests.engine.opened import CPU, load, planned

    for name in SEEING:
        folder = checkpoint(name)
        plan, mapped = planned(folder, load(vision=True, context=400), rehearsed=True)
        made: list[Any] = []

        def note(where: Any, op: str, function: Any) -> Any:
            return lambda *args, **kwargs: (made.append((*where[:2], op)), function(*args, **kwargs))[1]  # noqa: B023

        vision = Vision(Release.open(folder), plan.workload, Bound(mapped.sites, Workspace(0, CPU), note), CPU)
        vision.encode(picture(name, SIZES[0]))
        assert set(made) == {(site.layer, site.place, site.op) for site in mapped.sites if site.place.startswith("vision.")}


def test_a_release_whose_tower_is_absent(tmp_path: Path) -> None:
    """Text goes on working; the absence is told, and images are refused before weights are read."""
    import shutil

    from safetensors.torch import load_file, save_file

    from day0.spec.errors import Day0Error
    from day0.stages.inspect import inspect

    folder = tmp_path / "blind"
    shutil.copytree(checkpoint("glm5_next"), folder)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    save_file({name: tensor for name, tensor in tensors.items() if "visual.merger" not in name}, file, metadata={"format": "pt"})
    partly = [finding.subject for finding in inspect(folder).findings if finding.code == "D0302"]
    assert partly and all(subject.startswith("vision.connector.") for subject in partly)
    save_file({name: tensor for name, tensor in tensors.items() if "visual" not in name}, file, metadata={"format": "pt"})
    assert [finding.code for finding in inspect(folder).findings if finding.status == "fail"] == ["D0309"]
    assert start(folder, context=64, batch=1).account()["weights"] > 0
    with pytest.raises(Day0Error, match=r"weight patches\.proj and \d+ more is not in the checkpoint"):
        start(folder, context=64, batch=1, vision=True)
