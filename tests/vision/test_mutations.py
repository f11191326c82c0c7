"""A small fault in any part of a tower is far beyond what healthy towers differ by."""

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

from day0.engine.layer import BoundLayer
from day0.engine.vision import Vision
from day0.spec.encoder import Encoder
from day0.spec.model import PartSpec
from day0.spec.picture import View
from tests.engine.opened import start
from tests.vision.mutations import MUTATIONS, Mutation
from tests.vision.test_towers import SIZES, TOLERANCE, error, model, prompt
from tests.vision.zoo import checkpoint, right


def broken(vision: Vision, kind: str, mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of one kind computes as the mutation says."""

    def wrong(part: Any) -> Any:
        return mutation.part(part) if part is not None and part.kind == kind else part

    healthy, run = vision.encoder, vision._part

    def part_of(place: str, part: PartSpec, x: Any, view: View) -> Any:
        return run(place, part, mutation.stream(x) if part.kind == kind else x, view)

    layers = tuple(replace(layer, mixer=wrong(layer.mixer)) for layer in healthy.layers)
    encoder: Encoder = replace(healthy, patches=wrong(healthy.patches), connector=wrong(healthy.connector), layers=layers)
    monkeypatch.setattr(vision, "encoder", encoder)
    monkeypatch.setattr(vision, "_layers", [BoundLayer(layer, vision._bound, None, "vision.") for layer in layers])
    monkeypatch.setattr(vision, "_part", part_of)


@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_mutation_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[kind]
    vision = start(checkpoint(mutation.checkpoint), vision=True, context=400, batch=1).forward.vision
    assert vision is not None
    tokens, placed = prompt(mutation.checkpoint, SIZES[2])
    broken(vision, kind, mutation, monkeypatch)
    features, _ = right(model(mutation.checkpoint), tokens, [one.picture for one in placed])
    assert error(vision.encode(placed[0].picture).embeddings_ND, features[0]) > 10 * TOLERANCE
