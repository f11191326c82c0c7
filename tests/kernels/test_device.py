"""The script for a device, on a processor: every step but the figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import calls

ROOT = Path(__file__).parents[2]
FEW = ["rms_norm_triton", "route_triton"]


def dry(out: Path, *arguments: str) -> tuple[int, str]:
    pytest.importorskip("triton")
    command = ["bench/device.sh", str(out), "--dry", *arguments]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def verdicts(page: str) -> dict[str, str]:
    """File → verdict, of rows that have a time."""
    return dict(re.findall(r"^\| (\w+_triton) \| [^|]+ \| \w+ \| (.+?) \| [\d.]+ \| \d+% \|$", page, re.MULTILINE))


def test_a_dry_run_compares_and_times(tmp_path: Path) -> None:
    code, said = dry(tmp_path / "device.md", "--only", *FEW)
    assert code == 0, said
    page = (tmp_path / "device.md").read_text()
    assert verdicts(page) == dict.fromkeys(FEW, "right") and page.strip() in said
    assert "Measured first: copy" in page and "dry run: times mean nothing" in page


@pytest.mark.slow
def test_a_dry_run_of_every_file(tmp_path: Path) -> None:
    code, said = dry(tmp_path / "device.md")
    assert code == 0, said
    assert [*verdicts((tmp_path / "device.md").read_text())] == calls.FILES
