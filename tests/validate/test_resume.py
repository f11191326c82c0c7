"""A comparison that is stopped anywhere and started again ends with the report of one that was not."""

import json
import multiprocessing
import os
import random
import signal
import sys
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
from day0.stages.journal import Journal
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
    assert kept == ["model 0", "model 1", "model 2", "model norm", "model logits", "service: the engine alone", "service: answers"]
    for name in ("_asked", "_heard"):
        monkeypatch.setattr(service, name, None)
    assert timeless(validate(monkeypatch, folder, journal=journal, **wanted).to_dict()) == right


def at(what: str, done: int) -> Progress:
    """Progress that ends the run at one word."""

    def hear(said: str, so_far: int, _total: int) -> None:
        if (said, so_far) == (what, done):
            raise Stopped

    return hear


def validate_all(folder: Path, place: int | None = None, calls: int = 0) -> None:
    """`day0 validate --layer all` in a process that was forked with everything imported.

    With `place` it is killed from within, as by the system, so many calls of functions after it wrote that line of its journal. A run that
    ends says how many lines there were.
    """
    os.chdir(folder)
    torch.set_num_threads(1)
    close = Journal.close

    def closed(self: Journal) -> None:
        (folder / "lines").write_text(str(measured(folder)))
        close(self)

    Journal.close = closed  # type: ignore[method-assign]
    if place is not None:
        keep = Journal._keep

        def kept(self: Journal, key: str, value: Any) -> None:
            keep(self, key, value)
            if measured(folder) >= place:
                left = iter(range(calls, 0, -1))
                sys.setprofile(lambda *_: os.kill(os.getpid(), signal.SIGKILL) if next(left, 1) == 1 else None)

        Journal._keep = kept  # type: ignore[method-assign]
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        sys.exit(main(["validate", "--layer", "all"]))


def measured(folder: Path) -> int:
    """Whole lines that are on record."""
    return sum(file.read_bytes().count(b"\n") for file in folder.rglob("measured.jsonl"))


@pytest.mark.parametrize("times", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_points_it_resumes_to_the_same_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int) -> None:
    """On every rung, in the middle of what comes after another thing that was measured; also several times in a row, further on each time."""
    monkeypatch.chdir(tmp_path)
    for command in (["inspect", str(checkpoint("glm_moe_dsa-shared"))], ["plan-memory"], ["map-ops"]):
        assert main(command) == 0
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # what is imported before the fork is found there
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["transformers.models.glm_moe_dsa.modeling_glm_moe_dsa", __name__])

    def run(*death: int) -> int | None:
        process = processes.Process(target=validate_all, args=(tmp_path, *death))
        process.start()
        process.join()
        return process.exitcode

    draw = random.Random(0)
    assert run() == 0
    lines = int((tmp_path / "lines").read_text())
    (file,) = tmp_path.rglob("validate-layer.yaml")
    right = timeless(yaml.safe_load(file.read_text()))
    assert lines > 40
    drawn = sorted(draw.sample(range(2, lines - 1), times - 2))
    found: list[tuple[int, int]] = []
    for several in (drawn, [1, lines - 1]) if times == 4 else (drawn[0::2], drawn[1::2], [lines - 1], [1]):
        file.unlink()
        for place in several:
            assert run(place, draw.randrange(1, 500)) == -signal.SIGKILL
            assert not file.exists()
            found.append((place, measured(tmp_path)))
        assert run() == 0 and timeless(yaml.safe_load(file.read_text())) == right
    assert len(found) == times and all(place <= there < place + 3 for place, there in found), found


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
