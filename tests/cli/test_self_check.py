"""`day0 run --self-check`: said in the report, or the end of the run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch import Tensor

from day0.engine.weights import Streamed
from tests.cli.conftest import Done

Day0 = Callable[..., Done]
ASK = ("run", "What is 2 + 3?", "--max-new", "4")
REPORT = "reports/tiny-dsv3/this-machine/run.yaml"


@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_the_report_says_what_was_compared(day0: Day0, mapped: Path, tmp_path: Path, weights: str) -> None:
    plain = day0(*ASK, "--weights", weights)
    assert yaml.safe_load((tmp_path / REPORT).read_text())["self_check"] is None and "self-check" not in plain.err
    done = day0(*ASK, "--weights", weights, "--self-check")
    found = yaml.safe_load((tmp_path / REPORT).read_text())["self_check"]
    assert (done.code, done.out) == (0, plain.out)
    assert found["layers"] > 1 and found["tokens"] > 4 and f"{found['layers']} layers on {found['tokens']} tokens" in done.err


def test_a_fault_stops_the_run_before_it_answers(day0: Day0, mapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Streamed._read

    def faulty(self: Streamed, index: int, slot: Tensor) -> Any:
        found = read(self, index, slot)
        if index == 1:
            found.mixer.o.parts["scale"].mul_(1.5)
        return found

    monkeypatch.setattr(Streamed, "_read", faulty)
    done = day0(*ASK, "--weights", "streamed", "--self-check")
    assert (done.code, done.out) == (1, "") and not (tmp_path / REPORT).exists()
    assert done.error.startswith("self-check: layer 1 mixer.o: differs by ") and "D0505" in done.error
    assert "day0 validate --layer 1" in done.hint
    assert day0(*ASK, "--weights", "streamed").code == day0(*ASK, "--weights", "resident", "--self-check").code == 0


def test_what_cannot_be_checked_is_refused(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    assert day0(*ASK, "--self-check", "--executor", "community").code == 2
    (tmp_path / "suite.json").write_text('{"questions": [{"kind": "sums", "prompt": "What is 2 + 3?", "answer": "5"}]}')
    done = day0("run", "--suite", tmp_path / "suite.json", "--self-check")
    assert done.code == 2 and "no prompt" in done.error
