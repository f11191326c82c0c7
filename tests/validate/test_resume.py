"""A comparison that is stopped anywhere and started again ends with the report of one that was not."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("transformers")

from day0.cli.app import main
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


@pytest.mark.slow
def test_killed_at_ten_random_points_it_resumes_to_the_same_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["inspect", str(checkpoint("deepseek_v3"))], ["plan-memory"], ["map-ops"]):
        assert main(command) == 0
    command = [sys.executable, "-m", "day0", "validate", "--layer", "all"]
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    whole, draw = time.monotonic() - start, random.Random(0)
    (file,) = tmp_path.rglob("validate-layer.yaml")
    right = timeless(yaml.safe_load(file.read_text()))
    for _ in range(10):
        file.unlink()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * draw.uniform(0.1, 0.95))
        process.send_signal(signal.SIGKILL)
        process.wait()
        subprocess.run(command, check=True, capture_output=True)
        assert timeless(yaml.safe_load(file.read_text())) == right


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
