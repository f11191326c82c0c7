"""Whatever is wrong is said in one line, with a place and a way out; the exit code is 2 (1 where the answer is no)."""

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done

Day0 = Callable[..., Done]
SHARD = "model-00002-of-00002.safetensors"


def leftovers(folder: Path) -> list[str]:
    """Temporary files."""
    return [str(path) for path in folder.rglob(".*")]


@pytest.mark.parametrize("command", ["inspect", "adapt", "score"])
def test_missing_folder(day0: Day0, tmp_path: Path, command: str) -> None:
    (tmp_path / "ids.json").write_text("[[1]]")
    done = day0(command, "nowhere", *(["--ids", "ids.json"] if command == "score" else []))
    assert (done.code, done.out) == (2, "")
    assert done.error == "nowhere: there is no such folder"
    assert done.hint == "give the folder that holds config.json and the weights"
    assert not (tmp_path / "reports").exists()


def test_a_file_where_a_folder_should_be(day0: Day0, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    done = day0("inspect", "model.safetensors")
    assert (done.code, done.error) == (2, "model.safetensors: is a file, not a folder")


def test_no_config(day0: Day0, model: Path) -> None:
    (model / "config.json").unlink()
    done = day0("inspect", model)
    assert (done.code, done.error) == (2, f"{model}/config.json: there is no config.json")
    assert "folder of a released model" in done.hint


@pytest.mark.parametrize(("text", "problem"), [
    ("{", "not valid JSON: Expecting property name"), ("[]", "expected a JSON object, found list"), ("[" * 100_000, "not valid JSON"),
    ("", "not valid JSON"), ("\x00\xff", "not valid JSON"),
])  # fmt: skip
def test_broken_config(day0: Day0, model: Path, text: str, problem: str) -> None:
    (model / "config.json").write_text(text, encoding="latin-1")
    done = day0("inspect", model)
    assert done.code == 2
    assert done.error.startswith(f"{model}/config.json: {problem}")
    assert done.hint == "download the file again"


def truncate(model: Path) -> None:
    with (model / SHARD).open("r+b") as file:
        file.truncate(900_000)


@pytest.mark.parametrize(("damage", "found"), [(truncate, "truncated"), (lambda model: (model / SHARD).unlink(), "absent")])
def test_damaged_weights(day0: Day0, model: Path, tmp_path: Path, damage: Callable[[Path], None], found: str) -> None:
    damage(model)
    done = day0("inspect", model, "--json")
    fails = [row for row in done.json["findings"] if row["status"] == "fail"]
    assert (done.code, done.json["verdict"]) == (1, "unsound")
    assert any(row["subject"] == SHARD and row["found"].startswith(found) and row["hint"] for row in fails)

    (tmp_path / "ids.json").write_text("[[1, 2]]")
    done = day0("score", model, "--ids", "ids.json", "--out", "logits.safetensors")
    assert done.code == 2
    assert f"{SHARD}: {found}" in done.error
    assert not (tmp_path / "logits.safetensors").exists()

    done = day0("adapt", model)
    assert done.code == 1
    assert f"{found}" in done.out
    assert "stops at inspect" in done.out
    assert not leftovers(tmp_path)


def test_shards_that_change_after_planning(day0: Day0, mapped: Path) -> None:
    truncate(mapped)
    done = day0("run", "Hello")
    assert done.code == 2
    assert f"stale: {mapped / SHARD} has changed" in done.error
    assert done.hint == f"run `day0 inspect {mapped}` again"


def test_empty_prompt(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    for arguments in (["run", ""], ["run", " \n"], ["run", "fine", ""], ["run", "--prompt-file", "empty.txt"]):
        done = day0(*arguments)
        assert (done.code, done.error) == (2, "the prompt is empty")
    assert day0("run").error == "there is no prompt"
    assert not (tmp_path / "reports/tiny-dsv3/this-machine/run.yaml").exists()


def test_prompt_longer_than_the_plan(day0: Day0, mapped: Path) -> None:
    done = day0("run", "hello " * 100)
    assert done.code == 2
    assert "that is more than the 64 of the plan" in done.error
    assert done.hint.startswith("run `day0 plan-memory --context ")
    done = day0("run", "Hello", "--max-new", "60")
    assert (done.code, "with 60 new ones" in done.error) == (2, True)


def test_unknown_model_field(day0: Day0, model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"attention_flux_capacity": 88}))
    done = day0("inspect", model, "--json")
    assert (done.code, [*done.json["config"]["unread"]]) == (0, ["attention_flux_capacity"])
    warned = [row for row in done.json["findings"] if row["status"] == "warn"]
    assert any("attention_flux_capacity" in row["subject"] + row["found"] for row in warned)
    assert "attention_flux_capacity" in day0("inspect", model).out


def test_report_of_another_model(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    other = shutil.copytree(mapped, tmp_path / "other")
    assert day0("inspect", other).code == 0
    reports = tmp_path / "reports"
    shutil.copy(reports / "tiny-dsv3/this-machine/plan-memory.yaml", reports / "other/this-machine/plan-memory.yaml")
    done = day0("map-ops")
    assert done.code == 2
    assert "belongs to another model" in done.error
    assert done.hint == "run `day0 plan-memory`"


def test_another_model_under_the_same_name(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    twin = shutil.copytree(mapped, tmp_path / "elsewhere" / mapped.name)
    done = day0("map-ops", twin)
    assert (done.code, "belongs to another model" in done.error) == (2, True)
    assert done.hint == f"run `day0 inspect {twin}`"


def test_stale_report(day0: Day0, mapped: Path) -> None:
    assert day0("plan-memory", "--context", "32").code == 0
    done = day0("run", "Hello")
    assert done.code == 2
    assert "map-ops.yaml: stale: " in done.error
    assert "plan-memory.yaml has changed since this report was made" in done.error
    assert done.hint == "run `day0 map-ops` again"
    assert day0("map-ops").code == 0
    assert day0("run", "Hello", "--max-new", "2").code == 0


def test_no_report(day0: Day0, model: Path) -> None:
    for command in ("plan-memory", "map-ops"):
        done = day0(command)
        assert (done.code, done.error, done.hint) == (2, "reports: no model has been inspected", "run `day0 inspect MODEL` first")
    assert day0("inspect", model).code == 0
    done = day0("run", "Hello")
    assert done.code == 2
    assert done.error.endswith("plan-memory.yaml: there is no plan-memory report")
    assert done.hint == "run `day0 plan-memory` to make it"


def test_a_model_that_does_not_fit_does_not_run(day0: Day0, model: Path) -> None:
    assert day0("inspect", model).code == 0
    assert day0("plan-memory", "--batch", "1000000", "--context", "4096").code == 1
    assert day0("map-ops").code == 0
    done = day0("run", "Hello")
    assert (done.code, "does not fit" in done.error) == (1, True)
    assert done.hint.startswith("see the plan")


def test_a_plan_for_another_device(day0: Day0, mapped: Path) -> None:
    done = day0("run", "Hello", "--device", "rocm")
    assert (done.code, "planned for cpu, not for rocm" in done.error) == (2, True)
    assert done.hint == "run `day0 plan-memory --machine rocm` and `day0 map-ops` first"


def test_port_in_use(day0: Day0, mapped: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = day0("serve", "--port", port)
    assert (done.code, done.error) == (2, f"port {port} on 127.0.0.1 is in use")
    assert "--port" in done.hint


@pytest.mark.parametrize(("text", "problem"), [
    ("{", "ids.json: not valid JSON"), ('{"a": 1}', "ids.json: expected a list of lists"), ("[]", "ids.json: expected a list of lists"),
    ("[[1, true]]", "ids.json: expected a list of lists"), ("[[1], []]", "sequence 1 is empty"),
    ("[[1], [2, 768]]", "sequence 1: token 768 is outside the vocabulary of 768"), ("[[-1]]", "sequence 0: token -1 is outside"),
])  # fmt: skip
def test_wrong_token_ids(day0: Day0, model: Path, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "ids.json").write_text(text)
    done = day0("score", model, "--ids", "ids.json", "--out", "logits.safetensors")
    assert done.code == 2
    assert done.error.startswith(problem)
    assert not (tmp_path / "logits.safetensors").exists()


def test_options_that_would_have_no_effect_are_errors(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.json").write_text("[[1]]")
    for arguments, problem in (
        (["score", mapped, "--text", "ids.json", "--images", "cat.png"], "cat.png: --images goes with --ids"),
        (["score", mapped], "give either --ids or --text"),
        (["score", mapped, "--ids", "ids.json", "--window", "8"], "--window goes with --text"),
        (["run", "--chat", "Hello"], "--chat takes no prompt"),
        (["run", "Hello", "--executor", "community", "--weights", "streamed"], "the community executor keeps weights resident"),
    ):
        done = day0(*arguments)
        assert done.code == 2
        assert done.error.startswith(problem)
