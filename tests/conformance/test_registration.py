"""Conformance tests are made from the registries: in a copy of the tree, removed files take their tests along and added ones bring theirs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from day0.spec.check import HUNDREDS
from day0.spec.registry import checks
from day0.stages.new import draft

ROOT = Path(__file__).parents[2]
COLLECTED = ("test_families.py", "test_formats.py", "test_ops.py")
REMOVED = {"families": "llama4", "formats": "awq", "ops": "gated_pool"}
ADDED = {"families": "wren", "formats": "wren_format", "ops": "wren_op"}


def copy(target: Path) -> None:
    """The tree with one family, format and operator less, and one more of each."""
    for folder in ("day0", "kernels", "checks", "templates", "tests"):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("kernels", "checks", "templates"):
        (target / "day0" / folder).symlink_to(target / folder, target_is_directory=True)
    shutil.copy(ROOT / "pyproject.toml", target)
    for folder, name in REMOVED.items():
        (target / "day0" / folder / f"{name}.py").unlink()
    family = (ROOT / "day0" / "families" / "mixtral.py").read_text(encoding="utf-8")
    (target / "day0" / "families" / "wren.py").write_text(family.replace('"mixtral"', '"wren"'), encoding="utf-8")
    for kind, folder in (("format", "formats"), ("op", "ops")):
        (made,) = draft(kind, ADDED[folder])  # type: ignore[arg-type]
        (target / "day0" / folder / f"{made.name}.py").write_text(made.text, encoding="utf-8")


def test_files_bring_their_tests_and_take_them_along(tmp_path: Path) -> None:
    copy(tmp_path)
    paths = [f"tests/conformance/{name}" for name in COLLECTED]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-o", "addopts=", "-q", "-p", "no:cacheprovider", *paths],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    found = done.stdout.splitlines()
    for file, (folder, name) in zip(COLLECTED, REMOVED.items(), strict=True):
        mine = [line for line in found if f"/{file}::" in line]
        assert mine, done.stdout[-2000:] + done.stderr[-2000:]
        assert not [line for line in mine if line.endswith((f"[{name}]", f"-{name}]"))], folder
        assert [line for line in mine if line.endswith((f"[{ADDED[folder]}]", f"-{ADDED[folder]}]"))], folder


def test_a_check_has_the_code_of_the_stage_that_runs_it() -> None:
    """Stages load the checks whose codes begin as theirs do: one with another code would never be asked."""
    scopes = {"inspect": {"checkpoint", "release", "likely", "digests", "samples", "norms"}, "plan-memory": {"plan"}}
    for stage, starts in HUNDREDS.items():
        own = {name for name, check in checks().items() if check.scope in scopes[stage]}
        assert own == {name for name, _ in checks().items(*starts)}, stage
