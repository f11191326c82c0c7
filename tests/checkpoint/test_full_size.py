"""Full-size releases as sparse files, sound and with one planted fault. The generator of such folders lies beside the project."""

import subprocess
import sys
from pathlib import Path

import pytest

from day0.stages.inspect import inspect

GHOST = Path(__file__).parents[2].parent / "shared" / "zoo" / "ghost.py"
NAME = "Qwen--Qwen3-30B-A3B-FP8"
pytestmark = pytest.mark.skipif(not GHOST.is_file(), reason="the generator of full-size sparse releases is not on this machine")


def ghost(folder: Path, *damage: str) -> Path:
    subprocess.run([sys.executable, str(GHOST), str(folder), NAME, *damage], check=True, capture_output=True)
    return folder / NAME


def test_sound(tmp_path: Path) -> None:
    """Published: 30.5B parameters, 3.3B active (Qwen3-30B-A3B model card)."""
    report = inspect(ghost(tmp_path))
    assert report.verdict == "sound" and [f for f in report.findings if f.status != "pass"] == []
    assert round(report.parameters.total / 1e9, 1) == 30.5
    assert round((report.parameters.active or 0) / 1e9, 1) in (3.3, 3.4)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("truncate", {("D0110", "fail")}),
        ("missing-shard", {("D0203", "fail")}),
        ("dup", {("D0207", "warn")}),
        ("hole", {("D0112", "fail")}),
        ("stale-index", {("D0205", "fail"), ("D0206", "warn"), ("D0208", "warn")}),
    ],
)
def test_one_fault_is_told_as_itself(tmp_path: Path, damage: str, expected: set[tuple[str, str]]) -> None:
    report = inspect(ghost(tmp_path, "--damage", damage))
    assert {(finding.code, finding.status) for finding in report.findings} == expected
