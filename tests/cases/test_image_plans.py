"""What images cost is in the plan: the tower whole on the card, the largest image, and embeddings that are kept."""

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from day0.engine.eye import Eye
from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.reports.plan_memory import PlanMemoryReport
from tests.engine.opened import load, planned
from tests.vision.zoo import SEEING, checkpoint


def plan(name: str, **changes: object) -> PlanMemoryReport:
    return planned(checkpoint(name), load(vision=True, **changes))[0]


@pytest.mark.parametrize("name", SEEING)
def test_the_tower_is_planned_only_when_it_is_asked_for(name: str) -> None:
    seeing, blind = plan(name), planned(checkpoint(name), load())[0]
    tower = {pool.name: pool.bytes for pool in seeing.weights}["towers"]
    assert seeing.per_card[0].weights == blind.per_card[0].weights + tower
    assert "towers" not in {pool.name for pool in blind.weights} and blind.per_card[0].images == 0
    elements = sum(located.spec.count for located in Release.open(checkpoint(name)).vision.values())
    assert 4 * elements <= tower <= 4 * elements + 64 * 100


@pytest.mark.parametrize("name", SEEING)
def test_the_largest_image_is_stated_and_can_be_set(name: str) -> None:
    """By default it is what the release's own preprocessor makes at the most, not a worst case of the architecture."""
    encoder = Release.open(checkpoint(name)).model.encoder
    assert encoder is not None
    most = Eye.open(checkpoint(name), encoder).most
    fewer = most // 4 // encoder.merge**2
    seeing, small = plan(name), plan(name, image_tokens=fewer)
    assert seeing.workload.image_patches == most and small.workload.image_patches == fewer * encoder.merge**2
    line = next(line for line in seeing.assumptions if line.startswith("images of up to"))
    assert f"{most} patches (the most that the release's preprocessor makes), {-(-most // encoder.merge**2)} tokens" in line
    assert any("(given)" in line for line in small.assumptions)
    assert small.per_card[0].images < seeing.per_card[0].images
    assert small.per_card[0].activations <= seeing.per_card[0].activations


def test_images_of_every_sequence_have_room() -> None:
    """Embeddings that are kept: one image of each sequence, each token as wide as the model, taps included."""
    few, many = plan("qwen3_vl_moe", batch=1, image_tokens=16), plan("qwen3_vl_moe", batch=4, image_tokens=16)
    assert few.per_card[0].images == 64 // 4 * 40 * 4 * (1 + 2)
    assert many.per_card[0].images == 4 * few.per_card[0].images


def test_a_release_that_cannot_see_is_told_before_anything_is_planned() -> None:
    from tests.zoo import checkpoint as blind

    with pytest.raises(Day0Error, match=r"takes no images .it reads text alone"):
        planned(blind("llama"), load(vision=True))


def test_text_only_copies_of_models_that_see(tmp_path: Path) -> None:
    """Without vision_config the tower weighs nothing; with it and without its weights, the copy is not sound."""
    import json
    import shutil

    from safetensors.torch import load_file, save_file

    from day0.stages.inspect import inspect

    folder = Path(shutil.copytree(checkpoint("glm5_next"), tmp_path / "text"))
    file = folder / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if "visual" not in name}, file, metadata={"format": "pt"})
    declared = inspect(folder)
    assert declared.verdict == "unsound" and any(f.code == "D0309" and f.status == "fail" for f in declared.findings)
    config = json.loads((folder / "config.json").read_text())
    del config["vision_config"]
    (folder / "config.json").write_text(json.dumps(config))
    honest = inspect(folder)
    assert honest.verdict == "sound" and honest.parameters.towers == {}


def test_blocks_of_towers_are_no_layers_of_the_decoder() -> None:
    from day0.stages.inspect import inspect

    report = inspect(checkpoint("qwen3_vl_moe"))
    assert [layer.index for layer in report.layers] == [0, 1, 2] and report.parameters.towers["vision"] > 0
