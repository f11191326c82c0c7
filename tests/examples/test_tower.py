"""The tower of the training script: what transformers computes, and what it is taught to name."""

from random import Random

import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("transformers")

from PIL import Image

from tests.examples.conftest import MODEL


def test_pictures_of_one_size_are_seen_as_transformers_sees_them() -> None:
    import transformers
    from tasks import caption
    from tower import pictures, see
    from transformers.models.glm5_next import modeling_glm5_next as community
    from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil

    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(MODEL).vision_config
    config.initializer_range = 0.2  # so that attention is not flat
    tower = community.Glm5NextVisionModel._from_config(config)
    processor, samples = Glm5NextImageProcessorPil.from_pretrained(MODEL), [caption(Random(seed)) for seed in range(5)]
    media = processor([one.image for one in samples], return_tensors="pt")
    with torch.no_grad():
        found = see(tower, *pictures(processor, samples))
        expected = tower(media["pixel_values"], media["image_grid_thw"]).pooler_output
    torch.testing.assert_close(found.flatten(0, 1), expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_what_each_square_shows() -> None:
    """Places in the lists of names; one more is none, and squares of which little is filled are not asked."""
    from tasks import SIDE, Sample, put
    from tower import shown

    image = Image.new("RGB", (SIDE, SIDE), (128, 128, 128))
    put(image, "triangle", "black", 28, 42, 14)  # the square of column 0 and 1 that begins at pixel 28, and its neighbour
    put(image, "circle", "white", 84, 56, 3)
    colours, shapes = shown(Sample("captions", "", "The image shows a black triangle left of a white circle.", image), 4, 4)
    asked = {place: (colour, shape) for place, (colour, shape) in enumerate(zip(colours, shapes, strict=True)) if (colour, shape) != (8, 3)}
    assert {place for place, names in asked.items() if names == (7, 2)} >= {4, 5}
    assert set(asked.values()) == {(7, 2), (-100, -100)}
    one = shown(Sample("captions", "", "The triangle is black.", image), 4, 4)
    assert one[0][4] == 7 and one[1][5] == 2


def test_a_tower_learns_to_name_colours() -> None:
    """Some steps are enough to beat one guess in eight, from fresh weights, and leave embeddings of the length of text."""
    import transformers
    from tasks import caption
    from tower import LENGTH, NAMES, pictures, rightly, see, shown, teach
    from transformers.models.glm5_next import modeling_glm5_next as community
    from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil

    torch.manual_seed(0)
    tower = community.Glm5NextVisionModel._from_config(transformers.AutoConfig.from_pretrained(MODEL).vision_config)
    words = [torch.randn(len(names), tower.config.out_hidden_size) for names in NAMES]
    processor, samples = Glm5NextImageProcessorPil.from_pretrained(MODEL), [caption(Random(seed)) for seed in range(100)]
    namer = teach(tower, words, processor, 60, 0)
    with torch.no_grad():
        seen = see(tower, *pictures(processor, samples))
        said = namer(seen)
    assert float(seen.norm(dim=-1).mean()) == pytest.approx(LENGTH, rel=0.3)
    assert rightly(said[0], torch.tensor([shown(one, 4, 4)[0] for one in samples])) > 0.3
