"""Images made ready as transformers' processors do: compared with those that need pillow alone, and with recorded values of the others."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

pytest.importorskip("PIL")

from day0.checkpoint.config import Config
from day0.engine.eye import Eye
from day0.spec.errors import Day0Error
from day0.spec.preprocessor import Look
from day0.spec.registry import preprocessors
from tests.vision.drawn import SIZES, drawn

PIXELS = json.loads((Path(__file__).parent / "pixels.json").read_text())
MARKS = {"<patch_start>": -1, "<patch_end>": -2, "<patch_newline>": -3, "<im_start>": -4, "<im_end>": -5}
TOKEN, TOLERANCE = 5, 1e-5
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # configuration, and what the tower says
    "glm5_next": (dict(min_image_tokens=4, max_image_tokens=64), dict(side=14, frames=2, merge=2, squares=2)),
    "qwen2_vl": (dict(size=dict(shortest_edge=4096, longest_edge=400_000)), dict(side=14, frames=2, merge=2, squares=2)),
    "kimi_k25": (dict(max_patches=600, size=dict(max_height=64, max_width=64)), dict(side=14, frames=1, merge=2, squares=1)),
    "step3p7": (dict(size=dict(height=168, width=168), patch_size=112, max_image_size=700), dict(side=14, frames=1, merge=4, squares=1)),
}


def eye(name: str, **changes: Any) -> Eye:
    settings, said = SETTINGS[name]
    rule, encoder = preprocessors().get(name), SimpleNamespace(token=TOKEN, processor=name, **said)
    look: Look = rule.read(Config(settings | changes), encoder)
    return Eye(look, rule, encoder, MARKS.__getitem__)  # type: ignore[arg-type]


def test_every_preprocessor_is_tested() -> None:
    assert set(preprocessors().names()) == SETTINGS.keys() and len(SIZES) >= 30


@pytest.mark.parametrize("name", ["glm5_next", "qwen2_vl"])
def test_pixels_are_those_of_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    kind, file = {"glm5_next": ("Glm5Next", "glm5_next"), "qwen2_vl": ("Qwen2VL", "qwen2_vl")}[name]
    module = __import__(f"transformers.models.{file}.image_processing_pil_{file}", fromlist=[""])
    theirs = getattr(module, f"{kind}ImageProcessorPil")(**SETTINGS[name][0])
    for size in SIZES:
        image = drawn(size)
        expected, found = theirs(image, return_tensors="np"), eye(name).see(image)
        assert (1, *found.views[0].grid) == tuple(expected["image_grid_thw"][0]), size
        assert numpy.abs(found.views[0].patches - expected["pixel_values"]).max() < TOLERANCE, size
        assert found.tokens == (TOKEN,) * (expected["image_grid_thw"][0].prod() // 4)


def sampled(patches: Any) -> tuple[float, Any]:
    flat = patches.reshape(-1)
    return flat.astype("float64").mean(), flat[numpy.linspace(0, len(flat) - 1, 12).astype(int)]


@pytest.mark.parametrize("name", ["kimi_k25", "step3p7"])
def test_pixels_are_those_recorded(name: str) -> None:
    for size in SIZES:
        expected, found = PIXELS[name]["{}x{}".format(*size)], eye(name).see(drawn(size))
        mean, values = sampled(numpy.concatenate([view.patches for view in found.views]))
        assert abs(mean - expected["mean"]) < TOLERANCE and numpy.abs(values - expected["sampled"]).max() < TOLERANCE, size
        if name == "kimi_k25":
            assert list(found.views[0].grid) == expected["grid"] and len(found.tokens) == numpy.prod(expected["grid"]) // 4
        else:
            pieces, rows = expected["pieces"], expected["rows"]
            assert len(found.views) == pieces + 1 and found.tokens.count(-3) == max(0, rows - 1)
            assert found.tokens.count(TOKEN) == 4 * pieces + 9 and found.tokens[-11] == -4 and found.tokens[-1] == -5
            assert found.tokens.count(-1) == found.tokens.count(-2) == pieces


@pytest.mark.parametrize("name", SETTINGS)
def test_no_image_is_larger_than_the_most(name: str) -> None:
    most = eye(name).most
    for size in [(1, 1), (27, 28), (700, 20), (2000, 30), (31, 2000), (800, 790)]:
        assert eye(name).see(drawn(size)).patches <= most, size


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (dict(image_mean=[0.5]), "three numbers"),
        (dict(image_std=[0, 1, 1]), "deviation is zero"),
        (dict(do_resize=False), "do_resize false is not supported"),
        (dict(rescale_factor="large"), "rescale_factor should be a number"),
    ],
)
def test_a_configuration_that_cannot_be_followed(name: str, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(Day0Error, match=problem):
        eye(name, **changes)


@pytest.mark.parametrize("name", ["glm5_next", "qwen2_vl", "kimi_k25"])
def test_patches_of_another_tower(name: str) -> None:
    with pytest.raises(Day0Error, match=r"patch_size is 16, the tower's is 14"):
        eye(name, patch_size=16)


def test_kimis_released_spelling() -> None:
    released = dict(media_proc_cfg=dict(in_patch_limit=600, patch_size=14, merge_kernel_size=2, patch_limit_on_one_side=64))
    encoder = SimpleNamespace(token=TOKEN, **SETTINGS["kimi_k25"][1])
    assert preprocessors().get("kimi_k25").read(Config(released), encoder) == eye("kimi_k25").look


def test_a_ratio_that_qwen_refuses() -> None:
    with pytest.raises(Day0Error, match="one side is more than 200 times the other"):
        eye("qwen2_vl").see(drawn((603, 3)))
