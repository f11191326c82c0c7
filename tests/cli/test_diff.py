"""What changed between two releases: as a table, as JSON, as an exit code."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from day0.stages.diff import flat, spans
from tests.cli.conftest import Done
from tests.zoo import checkpoint

Day0 = Callable[..., Done]


def rows(done: Done) -> dict[tuple[str, str], tuple[Any, Any]]:
    return {(row["part"], row["key"]): (row["before"], row["after"]) for row in done.json["changes"]}


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_same_release_elsewhere_is_the_same(day0: Day0, model: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(model, tmp_path / "another-name")
    done = day0("diff", model, copy)
    assert done.code == 0
    assert "tiny-dsv3 and another-name are the same release, as far as headers tell" in done.out
    assert "--hash" in done.out


def test_reports_give_what_folders_give(day0: Day0, model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(model, tmp_path / "other")
    edit(other / "config.json", max_position_embeddings=8192, brand_new=[1, 2])
    (other / "chat_template.jinja").write_text("{{ messages }}")
    for folder in (model, other):
        day0("inspect", folder, "--hash")
    reports = [f"reports/{name}/this-machine/inspect.yaml" for name in ("tiny-dsv3", "other")]
    found = rows(done := day0("diff", *reports, "--json"))
    assert done.code == 1 and done.json["weights_compared"]
    before = json.loads((model / "config.json").read_text())["max_position_embeddings"]
    assert found["model", "context"] == (before, 8192)
    assert found["config", "max_position_embeddings"] == (str(before), "8192")
    assert found["config", "brand_new"] == (None, "[1, 2]")
    assert found["template", "characters"][1] == len("{{ messages }}")
    assert found["files", "chat_template.jinja"][1].startswith("14 bytes, sha256 ")
    assert not {part for part, _ in found} & {"bytes", "parameters", "layers"}
    assert rows(day0("diff", model, other, "--json")) == {key: row for key, row in found.items() if ".safetensors" not in key[1]}


def test_structure_and_bytes(day0: Day0) -> None:
    """One family in two formats, and of two widths."""
    done = day0("diff", checkpoint("qwen3_moe"), checkpoint("gpt_oss"), "--json")
    found = rows(done)
    assert done.code == 1 and done.json["verdict"] == "different"
    assert found["model", "family"] == ("qwen3_moe", "gpt_oss")
    total = [day0("inspect", checkpoint(name), "--json").json["parameters"]["total"] for name in ("qwen3_moe", "gpt_oss")]
    assert found["parameters", "total"] == tuple(total)
    drawn = day0("diff", checkpoint("qwen3_moe"), checkpoint("gpt_oss")).out
    assert "configuration\n" in drawn and "\n  total " in drawn


def test_findings_that_one_of_both_has(day0: Day0, model: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(model, tmp_path / "damaged")
    shard = damaged / "model-00002-of-00002.safetensors"
    with shard.open("r+b") as file:
        file.truncate(shard.stat().st_size - 10)
    found = rows(day0("diff", model, damaged, "--json"))
    assert found["findings", f"D0110 {shard.name}"][1].startswith("fail: truncated: 10 bytes are missing")


@pytest.mark.parametrize(("what", "problem"), [("nowhere", "there is no such folder"), ("nowhere.yaml", "there is no inspect report")])
def test_what_cannot_be_read(day0: Day0, model: Path, what: str, problem: str) -> None:
    done = day0("diff", model, what)
    assert (done.code, done.error) == (2, f"{what}: {problem}")


def test_values_and_spans() -> None:
    leaves = {"r.a.x.name": "x", "r.a.x.n": 1, "r.a.1.n": 2, "r.b": "p, q"}
    assert flat({"a": [{"name": "x", "n": 1}, {"n": 2}], "b": ["p", "q"]}, "r") == leaves
    assert spans([0, 1, 2, 5]) == "0-2, 5" and spans([3]) == "3"
    assert spans(list(range(0, 40, 2))) == "20 layers from 0 to 38"
