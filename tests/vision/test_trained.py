"""The trained model that sees: drawn pictures, captioned and answered as transformers does on the same weights."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("PIL")

from PIL import Image, ImageDraw

from day0.checkpoint.folder import Checkpoint
from day0.engine.batch import Engine
from day0.engine.eye import Eye, place
from day0.engine.tokenizer import Tokenizer
from day0.spec.request import Request
from tests.engine.opened import Answer, hear, run, start

FOLDER = Path(__file__).parents[2] / "examples" / "tiny-glm5next"
COLOURS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 220), "yellow": (235, 205, 40)}
QUESTIONS = ("Describe the image.", "What is in the image?")
NEW = 16


def drawn(seed: int) -> tuple[Image.Image, str, str]:
    """A shape on grey, its colour and its name."""
    draw = random.Random(seed)
    colour, shape = draw.choice(list(COLOURS)), draw.choice(["circle", "square", "triangle"])
    image = Image.new("RGB", (112, 112), (128, 128, 128))
    x, y, r = draw.randrange(36, 76), draw.randrange(36, 76), draw.randrange(18, 28)
    pen, fill = ImageDraw.Draw(image), COLOURS[colour]
    if shape == "circle":
        pen.ellipse([x - r, y - r, x + r, y + r], fill=fill)
    elif shape == "square":
        pen.rectangle([x - r, y - r, x + r, y + r], fill=fill)
    else:
        pen.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=fill)
    return image, colour, shape


@cache
def engine() -> Engine:
    return start(FOLDER, vision=True, context=160, batch=6)


@cache
def seen() -> list[tuple[Any, Request]]:
    tokenizer, found = Tokenizer.open(FOLDER), []
    encoder = engine().forward.model.encoder
    assert encoder is not None
    eye = Eye.open(FOLDER, encoder, tokenizer.id)
    for seed in range(6):
        image, _, _ = drawn(seed)
        content = [{"type": "image"}, {"type": "text", "text": QUESTIONS[seed % 2]}]
        prompt = tokenizer.encode(tokenizer.chat([{"role": "user", "content": content}]))
        tokens, images = place(prompt, [eye.see(image)], encoder.token)
        found.append((image, Request(id=str(seed), tokens=tuple(tokens), max_new=NEW, images=images, stop_tokens=tokenizer.eos)))
    return found


@cache
def community() -> Any:
    """transformers' class with the packed weights decoded."""
    from day0.community.executor import Community

    return Community.open(Checkpoint.open(FOLDER), torch.float32, towers=True)


def test_the_community_executor_sees_the_same() -> None:
    pytest.importorskip("transformers")
    theirs: dict[str, Answer] = {}
    for _, request in seen():
        community().add(request)
    while community().busy:
        hear(theirs, community().step())
    ours = run(engine(), *(request for _, request in seen()))
    assert {id: answer.tokens for id, answer in theirs.items()} == {id: answer.tokens for id, answer in ours.items()}


def test_captions_are_those_of_transformers() -> None:
    """Pictures through transformers' own processor, answers by its `generate`, in float32; ours in one batch, token for token."""
    pytest.importorskip("transformers")
    from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil

    model = community().reference.model
    processor = Glm5NextImageProcessorPil.from_pretrained(FOLDER)
    answers = run(engine(), *(request for _, request in seen()))
    for image, request in seen():
        media = processor(image, return_tensors="pt")
        ids = torch.tensor([request.tokens])
        with torch.no_grad():
            whole = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **media, max_new_tokens=NEW, do_sample=False)
        expected = whole[0, len(request.tokens) :].tolist()
        assert answers[request.id].tokens == expected, request.id


def test_captions_name_what_was_drawn() -> None:
    """Single shapes on grey, in colour and kind; the model's card counts more of them."""
    answers, right = run(engine(), *(request for _, request in seen())), 0
    for seed, (_, request) in enumerate(seen()):
        _, colour, shape = drawn(seed)
        text = Tokenizer.open(FOLDER).decode(answers[request.id].tokens)
        assert "a " in text.lower() and text.endswith(".")
        right += colour in text and shape in text
    assert right >= 5
