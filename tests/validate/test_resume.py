"""A comparison that is stopped anywhere and started again ends with the report of one that was not."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

pytest.importorskip("transformers")

from day0.cli.app import main
from day0.spec.progress import Progress
from day0.stages import service
from day0.stages.budget import Budget
from tests.validate.planted import part, validate
from tests.zoo import checkpoint


class Stopped(Exception):
    """Stands for a power failure."""


class Stopper:
    """Progress that ends the run at its n-th word."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, _what: str, _done: int, _total: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise Stopped


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    """Without the times and without the command."""
    report["provenance"].pop("command")
    for rung in report["rungs"]:
        rung.pop("seconds")
    return report


def words(monkeypatch: pytest.MonkeyPatch, folder: Path, fault: Any = None, **wanted: Any) -> int:
    counter = Stopper(1 << 40)
    validate(monkeypatch, folder, fault, progress=counter, **wanted)
    return (1 << 40) - counter.left


@pytest.mark.parametrize(("name", "fault", "wanted"), [
    ("glm_moe_dsa-shared", None, dict(only=["weights", "layers"], dtype="float32", tokens=34)),
    pytest.param("deepseek_v3", part(1, "mixer", lambda m: type(m)(**{**vars(m), "scale": m.scale * 1.05})), {}, marks=pytest.mark.slow),
])  # fmt: skip
def test_stopped_anywhere_it_goes_on_to_the_same_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, fault: Any, wanted: dict[str, Any]
) -> None:
    folder = checkpoint(name)
    right = timeless(validate(monkeypatch, folder, fault, **wanted).to_dict())
    total, draw = words(monkeypatch, folder, fault, **wanted), random.Random(0)
    journal = tmp_path / "kept"
    for _ in range(2):
        for _ in range(3):  # stopped three times in a row, further on each time or not
            with pytest.raises(Stopped):
                validate(monkeypatch, folder, fault, journal=journal, progress=Stopper(draw.randrange(1, total)), **wanted)
        report = validate(monkeypatch, folder, fault, journal=journal, **wanted)
        assert timeless(report.to_dict()) == right
        assert not journal.exists()


def test_what_was_kept_of_another_run_is_thrown_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    journal, folder = tmp_path / "kept", checkpoint("llama")
    with pytest.raises(Stopped):
        validate(monkeypatch, folder, journal=journal, progress=Stopper(40), until="layers")
    report = validate(monkeypatch, folder, journal=journal, until="layers", dtype="float32")
    assert timeless(report.to_dict()) == timeless(validate(monkeypatch, folder, until="layers", dtype="float32").to_dict())


def test_a_line_that_was_cut_off_is_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    journal, folder = tmp_path / "kept", checkpoint("llama")
    with pytest.raises(Stopped):
        validate(monkeypatch, folder, journal=journal, progress=Stopper(20), until="weights")
    with open(journal / "measured.jsonl", "ab") as file:
        file.write(b'{"key": "weights model.norm')
    report = validate(monkeypatch, folder, journal=journal, until="weights")
    assert timeless(report.to_dict()) == timeless(validate(monkeypatch, folder, until="weights").to_dict())


def test_what_was_measured_of_the_model_is_reused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stopped between its layers it goes on with the one that comes next; stopped after the last answer nobody is asked again."""
    journal, folder = tmp_path / "kept", checkpoint("qwen3_moe")
    wanted: dict[str, Any] = dict(only=["model", "service"], dtype="float32", tokens=34)
    right = timeless(validate(monkeypatch, folder, **wanted).to_dict())
    for stop in (("model", 2), ("service", 3)):
        with pytest.raises(Stopped):
            validate(monkeypatch, folder, journal=journal, progress=at(*stop), **wanted)
    kept = [json.loads(line)["key"] for line in (journal / "measured.jsonl").read_text().splitlines()]
    assert kept == ["model 0", "model 1", "model 2", "model logits", "service: the engine alone", "service: answers"]
    for name in ("_asked", "_heard"):
        monkeypatch.setattr(service, name, None)
    assert timeless(validate(monkeypatch, folder, journal=journal, **wanted).to_dict()) == right


def at(what: str, done: int) -> Progress:
    """Progress that ends the run at one word."""

    def hear(said: str, so_far: int, _total: int) -> None:
        if (said, so_far) == (what, done):
            raise Stopped

    return hear


def validate_all(folder: Path) -> None:
    """`day0 validate --layer all` in a process that was forked with everything imported."""
    os.chdir(folder)
    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        sys.exit(main(["validate", "--layer", "all"]))


def measured(journal: Path) -> int:
    """Whole lines that a run has written."""
    try:
        return journal.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def test_killed_at_ten_random_points_it_resumes_to_the_same_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each time the process is found alive, in the middle of what comes after another thing that it measured, on every rung."""
    monkeypatch.chdir(tmp_path)
    for command in (["inspect", str(checkpoint("glm_moe_dsa-shared"))], ["plan-memory"], ["map-ops"]):
        assert main(command) == 0
    (folder,) = {file.parent for file in tmp_path.rglob("map-ops.yaml")}
    file, journal = folder / "validate-layer.yaml", folder / "validate-layer.partial" / "measured.jsonl"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # what is imported before the fork is found there
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["transformers.models.glm_moe_dsa.modeling_glm_moe_dsa", __name__])

    def run() -> Any:
        process = processes.Process(target=validate_all, args=(tmp_path,))
        process.start()
        return process

    whole = run()
    lines = 0
    while whole.is_alive():
        lines, _ = max(lines, measured(journal)), time.sleep(0.002)
    assert whole.exitcode == 0 and lines > 40
    right = timeless(yaml.safe_load(file.read_text()))
    draw = random.Random(0)
    places = [*sorted(draw.sample(range(1, lines - 1), 8)), lines - 1, 1]
    found = []
    for round_ in (places[0:8:2], places[1:8:2], places[8:9], places[9:]):  # several deaths in a row, each further on
        file.unlink()
        for place in round_:
            process = run()
            while measured(journal) < place and process.is_alive():
                time.sleep(0.0005)
            time.sleep(draw.uniform(0, 0.02))
            assert process.is_alive(), f"it ended before {place} of {lines} things were measured"
            process.kill()
            process.join()
            assert process.exitcode == -signal.SIGKILL and not file.exists()
            found.append(measured(journal))
        last = run()
        last.join()
        assert last.exitcode == 0 and timeless(yaml.safe_load(file.read_text())) == right
    assert len(found) == 10 and len(set(found)) >= 9 and max(found) <= lines


def test_a_budget_ends_it_in_time_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A watch that is a minute further at every look: one layer is measured in time, and the next run begins with the second."""
    folder, journal = checkpoint("qwen3_moe"), tmp_path / "journal"
    wanted: dict[str, Any] = dict(only=["layers", "model"], dtype="float32", tokens=34)
    right = timeless(validate(monkeypatch, folder, **wanted).to_dict())
    minutes = iter(range(1000))
    with monkeypatch.context() as watch:
        watch.setattr(Budget.__init__, "__defaults__", (lambda: 60.0 * next(minutes),))
        report = validate(monkeypatch, folder, journal=journal, budget=2, **wanted)
    left = [finding.found for finding in report.findings if finding.code == "D0805" and "time is over" in finding.found]
    assert report.verdict == "unknown" and report.budget == 2
    assert left[0].startswith("layers: layers from 1 of 3 on") and left[1].startswith("model: model, all of it")
    assert {row.layer for row in report.layer_errors} == {0}
    assert timeless(validate(monkeypatch, folder, journal=journal, **wanted).to_dict()) == right


def test_what_is_wrong_is_wrong_however_little_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = part(0, "mixer", lambda m: type(m)(**{**vars(m), "scale": m.scale * 1.05}))
    minutes = iter(range(1000))
    monkeypatch.setattr(Budget.__init__, "__defaults__", (lambda: 60.0 * next(minutes),))
    report = validate(monkeypatch, checkpoint("qwen3_moe"), fault, budget=2, only=["layers"], dtype="float32", tokens=34)
    assert report.verdict == "fail" and report.first_divergence is not None and report.first_divergence.layer == 0
