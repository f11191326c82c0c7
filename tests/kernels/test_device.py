"""The script for a device, on a processor: every step but the figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.device import least
from day0.engine.arguments import phases
from day0.spec.registry import ops
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


@pytest.mark.parametrize("file", calls.FILES)
def test_the_least_time_of_every_build_is_known(file: str) -> None:
    """What it is held against; of sequences of different lengths, that of each."""
    found = 0
    for _, build, op, case in calls.builds(file):
        made = calls.on_device(op, case, build, "meta")
        cost = least(op, made, build.dtype, phases(made)[0])
        assert cost.flops > 0 and cost.bytes > 0, case.name
        found += 1
    assert found


def test_two_sequences_cost_what_each_does() -> None:
    op = ops().get("paged_attention")
    sizes = {"H": 6, "N": 2, "Q": 40, "V": 40}
    one, other, both = (
        least(op, op.cases.at(queries=queries, before=before, **sizes).make("float32"), "float32", "prefill")
        for queries, before in (((7,), (63,)), ((40,), (130,)), ((7, 40), (63, 130)))
    )
    assert (one.flops + other.flops, one.bytes + other.bytes) == (both.flops, both.bytes)


@pytest.mark.slow
def test_a_dry_run_of_every_file(tmp_path: Path) -> None:
    code, said = dry(tmp_path / "device.md")
    assert code == 0, said
    assert [*verdicts((tmp_path / "device.md").read_text())] == calls.FILES
