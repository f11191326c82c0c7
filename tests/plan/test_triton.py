"""Triton kernels in a map: chosen on what the table of compiled kernels says, refused where nobody can launch them, and never imported."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from day0.engine.compiled import compiled
from day0.engine.targets import find_target
from day0.spec import build
from day0.spec.ops import Site
from day0.stages.choose import Chooser
from day0.stages.machines import find_machine

NORM = Site(op="rms_norm", label="norm", phase="decode", sizes={"T": 3, "D": 128}, options={"plus_one": False})


def chosen(machine: str, target: str | None = None, site: Site = NORM, **changes: Any) -> tuple[str | None, str, str, list[str]]:
    """Provider, status, evidence, and why others are not."""
    on = replace(find_machine(machine), **changes)
    choice = Chooser(on, find_target(target) if target else None).choose(site)
    return choice.provider, choice.status, choice.evidence, [reason for _, reason in choice.refusals]


def test_the_evidence_is_a_listing() -> None:
    for machine, arch in (("h200_sxm", "sm_90"), ("b200", "sm_100"), ("mi300x", "gfx942")):
        provider, status, evidence, _ = chosen(machine)
        assert (provider, status) == ("triton", "compiled-native")
        assert f"compiled it for {arch} in bfloat16: " in evidence and "none spilled; no matrix instruction" in evidence


def test_an_architecture_that_nothing_was_compiled_for() -> None:
    provider, status, evidence, _ = chosen("l40s")
    assert (provider, status) == ("triton", "compiled-emulated") and evidence.startswith("not verified: never compiled for sm_89")


def test_a_type_that_speaks_for_another() -> None:
    """Where there are no products, registers alone differ; of kernels with products each type has its own listing."""
    assert compiled("rms_norm_triton", "sm_90", "float32", "plain")[0]
    table = {"triton": "3.9.0", "kernels": {"x": [
        {"dtype": "bfloat16", "format": "plain", "targets": {"sm_90": {"registers": 9, "spilled": 8, "shared": 0, "matrix": ["wgmma 16-bit"]}}},
        {"dtype": "float32", "format": "fp8", "targets": {"sm_90": {"registers": 9, "spilled": 0, "shared": 0, "emulated": ["fp8"]}}},
    ]}}  # fmt: skip
    with mock.patch("day0.engine.compiled.recorded", return_value=table):
        said = "Triton 3.9.0 compiled it for sm_90 in bfloat16: 9 registers; 8 bytes spilled; wgmma 16-bit"
        assert compiled("x", "sm_90", "bfloat16", "plain") == (True, said)
        assert compiled("x", "sm_90", "float32", "plain") == (False, "not verified: never compiled for sm_90 in float32 with plain weights")
        native, evidence = compiled("x", "sm_90", "float32", "fp8")
        assert not native and evidence.endswith("fp8 products emulated")


@pytest.mark.parametrize(("machine", "site", "changes", "reason"), [
    ("h200_sxm", replace(NORM, sizes={"T": 3, "D": 20000}), {}, "a row of 20000 is longer than 16384"),
    ("h200_sxm", replace(NORM, dtype="float64"), {}, "computes in bfloat16, float16, float32, not float64"),
    ("h200_sxm", NORM, {"declared": False}, "triton is not installed"),
])  # fmt: skip
def test_who_cannot_launch_it(machine: str, site: Site, changes: dict[str, Any], reason: str) -> None:
    with mock.patch.object(build, "find_spec", return_value=None):
        provider, _, _, refusals = chosen(machine, site=site, **changes)
    assert provider == "torch" and refusals == [reason]


def test_a_card_that_is_too_old() -> None:
    machine = find_machine("h200_sxm")
    old = replace(machine, card=replace(machine.card, arch="sm_75"))
    assert "sm_75 is older" in (build.unlaunchable(NORM, old) or "")
    assert build.unlaunchable(NORM, find_machine("cpu")) == "needs a device of NVIDIA or AMD"
    assert build.unlaunchable(replace(NORM, format="mxfp4"), machine) == "reads plain weights, not mxfp4"


def test_another_target_than_this_machine_needs_no_triton_here() -> None:
    with mock.patch.object(build, "find_spec", return_value=None):
        assert chosen("cpu", "cuda_sm90")[0] == "triton"


def test_files_of_kernels_are_read_without_triton_and_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['triton'] = None\n"
        "from day0.spec.registry import kernels\nprint(*dict(kernels().items()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert "rms_norm_triton" in done.stdout.split()
