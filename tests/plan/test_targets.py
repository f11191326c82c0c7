"""Targets: manifests that hold against torch's own declarations, every family on every one of them, and files that are wrong."""

import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
import yaml

from day0.engine.dispatcher import declared, registered
from day0.engine.targets import dispatcher, find_target, is_target, target_names, target_of
from day0.spec.errors import Day0Error
from day0.spec.machine import Machine
from day0.spec.registry import kernels
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine, profile_names
from day0.stages.map_ops import map_ops
from tests.plans import quick_plan
from tests.zoo import checkpoint, names

FAMILIES = [name for name in names() if "-" not in name]
PACKED = ["deepseek_v3-fp8", "qwen3_moe-int4", "qwen3_moe-mxfp4", "qwen3_moe-nvfp4"]


@cache
def planned(name: str) -> tuple[InspectReport, PlanMemoryReport, Machine]:
    found, machine = inspect(checkpoint(name)), find_machine("cpu")
    return found, quick_plan(found, machine, Workload(context=300, batch=3, chunk=200, dtype="bfloat16")), machine


@pytest.mark.parametrize("name", [*FAMILIES, *PACKED])
def test_every_call_has_a_status_with_evidence_on_a_target_in_turn(name: str) -> None:
    """One of each third of the targets for a family, so that every target meets some."""
    names, place = target_names(), FAMILIES.index(name) if name in FAMILIES else PACKED.index(name)
    judged(name, names[place % 3 :: 3])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAMILIES, *PACKED])
def test_every_call_has_a_status_with_evidence_on_every_target(name: str) -> None:
    judged(name, target_names())


def judged(name: str, targets: Iterable[str]) -> None:
    for target in targets:
        report = map_ops(*planned(name), find_target(target))
        assert report.target == target
        assert report.sites and all(site.evidence and site.status for site in report.sites), target
        assert all(site.kernel is None or kernels().get(site.kernel).op == site.op for site in report.sites)
        assert sum(report.summary.values()) == len(report.sites) == sum(row.calls for row in report.devices.values())
        for phase in report.shares:
            assert sum(report.shares[phase].values()) == pytest.approx(1)
        known = find_target(target).registered is not None
        assert known or report.unverified == len(report.sites), f"{target} claims what nobody looked at"


def test_a_map_for_a_foreign_target_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from day0.cli.app import main\n"
        f"assert main(['inspect', {str(checkpoint('deepseek_v3-fp8'))!r}]) == 0\n"
        "assert main(['plan-memory', '--machine', 'h200_sxm', '--context', '300', '--batch', '3']) == 0\n"
        "assert main(['map-ops', '--target', 'rocm_gfx942', '--json']) == 0\n"
        "assert main(['map-ops']) == 0 and main(['why', 'experts']) == 0\n"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Not written" in done.stderr


def test_what_is_registered_is_what_torch_declares() -> None:
    """torch's file of all operators lists what this processor's build registers, but for operators of quantised recurrent networks."""
    here, told = registered("CPU"), declared("CPU")
    assert set(told.direct) - set(here.direct) == set()
    assert {name for name in set(here.direct) - set(told.direct) if not name.startswith("quantized_")} <= {"add"}
    assert "_grouped_mm" in told.composite and "_grouped_mm" in declared("CUDA").direct


@pytest.mark.parametrize(("name", "key"), [("cpu", "CPU"), ("cuda", "CUDA"), ("mps", "MPS")])
def test_the_dispatchers_that_come_with_day0(name: str, key: str) -> None:
    """Of another version of torch they differ in a few operators; most must be the same."""
    told, now = dispatcher(name), declared(key)
    assert told.key == key
    assert len(set(told.direct) ^ set(now.direct)) < 0.1 * len(now.direct)


@pytest.mark.parametrize(("machine", "expected"), [
    ("a100_80", "cuda_sm80"), ("l40s", "cuda_sm89"), ("h20", "cuda_sm90"), ("b300_sxm", "cuda_sm100"), ("dgx_spark", "cuda_sm120"),
    ("mi300x", "rocm_gfx942"), ("mi355x", "rocm_gfx950"), ("ascend_910b", "ascend"), ("mtt_s5000", "musa"), ("mlu590", "mlu"), ("b60", "xpu"),
])  # fmt: skip
def test_the_manifest_of_a_machine(machine: str, expected: str) -> None:
    """That of its architecture, or of the nearest older one."""
    assert target_of(find_machine(machine)).name == expected


def test_every_machine_profile_has_a_manifest() -> None:
    assert [name for name in profile_names() if target_of(find_machine(name)).name not in target_names()] == []


@pytest.mark.parametrize(("text", "said"), [
    ("name: [", "not YAML"), ("name: x", "title: Field required"), ("- 1", "Input should be"), ("\x00", "not YAML"),
    ("{name: x, title: x, backend: cpu, operators: {mm: {has: perhaps}}}", "operators.mm.has"),
    ("{name: x, title: x, backend: cpu, dispatcher: ../../secret}", "is no name of a dispatcher"),
    ("{name: x, title: x, backend: cpu, dispatcher: none_such}", "there is no such manifest"),
    ("{name: x, title: x, backend: cpu, surprise: 1}", "surprise"),
])  # fmt: skip
def test_a_wrong_manifest_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(Day0Error) as caught:
        find_target(str(path))
    assert said in f"{caught.value.where}: {caught.value.problem}"


def test_names_of_targets(tmp_path: Path) -> None:
    with pytest.raises(Day0Error, match="no target named 'cuda_sm70'"):
        find_target("cuda_sm70")
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (2 << 20))
    with pytest.raises(Day0Error, match="larger than 1 MiB"):
        find_target(str(huge))
    profile = tmp_path / "profile.yaml"
    profile.write_text(yaml.safe_dump({"name": "x", "marketing_gb": 8}))
    assert (is_target("ascend"), is_target("h200_sxm"), is_target(str(profile))) == (True, False, False)
