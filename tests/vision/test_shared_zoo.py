"""Image cases of another builder's tiny checkpoints: pixels as the tower takes them, and what transformers computed from them."""

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

pytest.importorskip("transformers")

from day0.engine.eye import picture, place
from day0.engine.score import score
from day0.spec.picture import View
from tests.engine.opened import start
from tests.engine.test_logits import shared

NAMES = ("glm5_next", "kimi_k25", "qwen3_vl_moe", "step3p7")
TOLERANCE = 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_logits_of_an_image(name: str) -> None:
    folder = shared(name)
    engine = start(folder, vision=True, image_tokens=48)
    encoder = engine.forward.model.encoder
    assert encoder is not None
    case = {key.removeprefix("image."): tensor for key, tensor in load_file(folder / "expected.safetensors").items() if "image." in key}
    ids, pixels = case["input_ids"][0].tolist(), case["pixel_values"]
    grid = tuple(case["image_grid_thw"][0, 1:].tolist()) if "image_grid_thw" in case else tuple(n // encoder.side for n in pixels.shape[2:])
    patches = pixels.flatten(1) if "image_grid_thw" in case else rows(pixels[0], encoder.side)
    seen = picture((View(patches=patches.numpy(), grid=grid),), (encoder.token,) * ids.count(encoder.token), encoder)
    tokens, placed = place(ids, [seen], encoder.token)
    assert tokens == ids
    right = case["logits"][0]
    for manner in ({}, {"chunk": 5}, {"decode_from": placed[0].start + 1}):
        (found,) = score(engine.forward, engine.state, [ids], images=[placed], **manner)
        assert (found - right).abs().max() < TOLERANCE * (right.max() - right.min()), manner


def rows(pixels: Tensor, side: int) -> Tensor:
    """Patches row by row."""
    cut = pixels.unfold(1, side, side).unfold(2, side, side).permute(1, 2, 0, 3, 4)
    return torch.flatten(cut, 0, 1).flatten(1)
