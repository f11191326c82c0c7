"""The tower of the training script: what transformers computes, and what it is taught to name."""

from random import Random

import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("transformers")

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


@pytest.mark.parametrize(("answer", "colours", "shapes"), [
    ("A red square.", [0, 8], [1, 3]), ("The circle is blue.", [2, 8], [0, 3]),
    ("The image shows a black triangle left of a white circle.", [7, 6], [2, 0]),
])  # fmt: skip
def test_what_an_answer_names(answer: str, colours: list[int], shapes: list[int]) -> None:
    """Places in the lists of names, in order; the one after the last is "none"."""
    from tasks import Sample
    from tower import drawn

    assert drawn(Sample("captions", "", answer)) == [colours, shapes]


def test_a_tower_learns_to_name_colours() -> None:
    """Some steps are enough to beat one guess in eight, from fresh weights, and leave embeddings of the length of text."""
    import transformers
    from tasks import caption
    from tower import LENGTH, drawn, pictures, see, teach
    from transformers.models.glm5_next import modeling_glm5_next as community
    from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil

    torch.manual_seed(0)
    tower = community.Glm5NextVisionModel._from_config(transformers.AutoConfig.from_pretrained(MODEL).vision_config)
    processor = Glm5NextImageProcessorPil.from_pretrained(MODEL)
    reader, samples = teach(tower, processor, 60, 0), [caption(Random(seed)) for seed in range(100)]
    with torch.no_grad():
        seen = see(tower, *pictures(processor, samples))
        colours, _ = reader(seen)
    assert float(seen.norm(dim=-1).mean()) == pytest.approx(LENGTH, rel=0.3)
    right = [int(found[0].argmax()) == drawn(one)[0][0] for found, one in zip(colours, samples, strict=True)]
    assert sum(right) > 30
