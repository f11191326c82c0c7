"""What is in the tree is what is installed."""

import tomllib
from pathlib import Path

from tests.arch.source import PACKAGED, ROOT, sources


def test_every_package_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    present = {s.module if s.path.stem == "__init__" else s.module.rpartition(".")[0] for s in sources()}
    assert set(project["packages"]) == present
    assert project["package-dir"] == {package: folder for folder, package in PACKAGED.items()}


def test_every_folder_of_modules_is_a_package() -> None:
    assert {s.path.parent for s in sources() if not (s.path.parent / "__init__.py").is_file()} == set()


def test_data_files_are_installed() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    installed: set[Path] = set()
    for package, patterns in data.items():
        folder = ROOT / package.removeprefix("day0.").replace(".", "/")
        installed |= {path for pattern in patterns for path in folder.glob(pattern)}
    others = {p for folder in PACKAGED for p in (ROOT / folder).rglob("*") if p.is_file() and p.suffix not in {".py", ".pyc"}}
    assert others - installed == set()
