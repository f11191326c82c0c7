"""Images on the command line: score, run and the interactive chat, and what is said when they cannot be taken."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

import numpy
from safetensors.numpy import load_file, save_file

from tests.cli.conftest import Done
from tests.vision.drawn import drawn
from tests.vision.test_towers import IMAGE, error, eye, model, prompt
from tests.vision.zoo import checkpoint, right

NAME = "glm5_next"
Day0 = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    drawn((30, 30)).save(tmp_path / "cat.png")
    drawn((100, 40)).save(tmp_path / "dog.png")
    return Path(shutil.copytree(checkpoint(NAME), tmp_path / NAME))


@pytest.fixture
def sighted(day0: Day0, folder: Path) -> Path:
    """The model after inspect, plan-memory with vision, and map-ops."""
    for words in (["inspect", folder], ["plan-memory", "--with-vision", "--context", "256", "--dtype", "float32"], ["map-ops"]):
        assert day0(*words).code == 0
    return folder


def test_score_with_images(day0: Day0, folder: Path, tmp_path: Path) -> None:
    """Two images over three sequences, in the order of their placeholders; one image token each, or all of its tokens already."""
    import torch

    rows = [prompt(NAME, (30, 30)), ([280, 65, 66], ()), prompt(NAME, (100, 40))]
    short = [280, 65, 66, IMAGE + 1, IMAGE, IMAGE + 2, *range(70, 72)]
    (tmp_path / "ids.json").write_text(json.dumps([short, rows[1][0], rows[2][0]]))
    images = ("--images", "cat.png", "dog.png")
    done = day0("score", folder, "--ids", "ids.json", *images, "--dtype", "float32", "--out", "logits.safetensors", "--json")
    assert done.code == 0 and [row["tokens"] for row in done.json["sequences"]] == [len(tokens) for tokens, _ in rows]
    found = load_file(tmp_path / "logits.safetensors")
    for i, (tokens, placed) in enumerate(rows):
        logits = right(model(NAME), tokens, [one.picture for one in placed])[1]
        assert error(torch.from_numpy(found[f"logits.{i}"]), logits) < 1e-4


def test_score_with_pixels_as_a_processor_left_them(day0: Day0, folder: Path, tmp_path: Path) -> None:
    view = eye(NAME).see(drawn((30, 30))).views[0]
    pixels = {"pixel_values": view.patches, "image_grid_thw": numpy.array([[1, *view.grid]])}
    save_file(pixels, tmp_path / "pixels.safetensors")
    (tmp_path / "ids.json").write_text(json.dumps([prompt(NAME, (30, 30))[0]]))
    both = []
    for image in ("cat.png", "pixels.safetensors"):
        assert day0("score", folder, "--ids", "ids.json", "--images", image, "--out", f"{image}.out").code == 0
        both.append(load_file(tmp_path / f"{image}.out")["logits.0"])
    assert (both[0] == both[1]).all()
    save_file({"pixel_values": view.patches[:3]}, tmp_path / "pixels.safetensors")
    assert "there is no tensor 'image_grid_thw'" in day0("score", folder, "--ids", "ids.json", "--images", "pixels.safetensors").error


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--ids", "ids.json", "--images", "none.png"], "none.png: there is no such image"),
        (["--ids", "ids.json", "--images", "ids.json"], "ids.json: not an image"),
        (["--ids", "ids.json", "--images", "cat.png", "dog.png"], "1 image placeholders for 2 images"),
        (["--text", "ids.json", "--images", "cat.png"], "cat.png: --images goes with --ids"),
        (["--ids", "ids.json", "--images", "cat.png", "--executor", "community"], "cat.png: the community executor is not given images"),
        (["--ids", "ids.json", "dog.png"], "dog.png: one model at a time"),
    ],
)
def test_score_says_what_is_wrong(day0: Day0, folder: Path, tmp_path: Path, arguments: list[str], problem: str) -> None:
    (tmp_path / "ids.json").write_text(json.dumps([[280, IMAGE, 65]]))
    done = day0("score", folder, *arguments, "--out", "logits.safetensors")
    assert done.code == 2 and done.error.startswith(problem) and not (tmp_path / "logits.safetensors").exists()


def test_run_with_images(day0: Day0, sighted: Path) -> None:
    done = day0("run", "--image", "cat.png", "--image", "dog.png", "What is it?", "--max-new", "4", "--json")
    assert done.code == 0
    (answer,) = done.json["answers"]
    assert answer["prompt_tokens"].count(IMAGE) == sum(len(eye(NAME).see(drawn(size)).tokens) for size in ((30, 30), (100, 40)))
    assert 1 <= len(answer["tokens"]) <= 4
    assert day0("run", "What is it?", "--max-new", "4").code == 0
    raw = day0("run", "--raw", "--image", "cat.png", "What is it?", "--max-new", "2")
    assert raw.code == 2 and raw.error.startswith("0 image placeholders for 1 images")
    assert day0("run", "--raw", "--image", "cat.png", "See <|image|>", "--max-new", "2").code == 0


def test_a_conversation_about_an_image(day0: Day0, sighted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("What is it?\n\nAnd what else?\n"))
    done = day0("run", "--chat", "--image", "cat.png", "--max-new", "4")
    assert done.code == 0
    from day0.spec.reports.run import RunReport

    report = RunReport.read(next(sighted.parent.glob("reports/*/*/run.yaml")))
    first, second = report.answers
    assert second.prompt_tokens[: len(first.prompt_tokens)] == first.prompt_tokens
    assert first.prompt_tokens.count(IMAGE) == second.prompt_tokens.count(IMAGE) > 1


def test_a_plan_without_vision_says_how_to_get_one(day0: Day0, folder: Path) -> None:
    for words in (["inspect", folder], ["plan-memory", "--context", "128"], ["map-ops"]):
        assert day0(*words).code == 0
    done = day0("run", "--image", "cat.png", "What is it?")
    assert done.code == 2 and done.error == "cat.png: this plan takes no images" and "plan-memory --with-vision" in done.hint


def test_a_model_that_takes_no_images(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    done = day0("plan-memory", "--with-vision")
    assert done.code == 2 and done.error.endswith("tiny-dsv3 takes no images") and done.hint == "it reads text alone"
    (tmp_path / "ids.json").write_text("[[1]]")
    done = day0("score", mapped, "--ids", "ids.json", "--images", "cat.png")
    assert done.code == 2 and done.error.endswith("tiny-dsv3 takes no images")


def test_the_map_and_the_report_name_the_tower(day0: Day0, sighted: Path) -> None:
    done: Any = day0("map-ops", "--json").json
    assert {site["place"] for site in done["sites"] if site["place"].startswith("vision.")} == {
        "vision.patches", "vision.residual", "vision.mixer", "vision.ffn", "vision.connector",
    }  # fmt: skip
    assert {site["layer"] for site in done["sites"] if site["place"] == "vision.mixer"} == {0, 1}
