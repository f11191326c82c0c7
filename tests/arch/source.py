"""The project's own files, parsed once."""

import ast
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGED = {"kernels": "day0.kernels", "checks": "day0.checks", "templates": "day0.templates"}  # folder → package


class Source(NamedTuple):
    path: Path
    module: str  # dotted name it is imported by
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))


@cache
def sources() -> list[Source]:
    """Every Python file that is installed."""
    found = []
    for folder, package in {"day0": "day0", **PACKAGED}.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT / folder).with_suffix("").parts
            module = ".".join([package, *(part for part in inside if part != "__init__")])
            found.append(Source(path, module, ast.parse(path.read_text(encoding="utf-8"))))
    return found


@cache
def tracked() -> list[Path]:
    """Every file that is, or would be, under version control; all of them where there is no git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        hidden = {".git", ".venv", "__pycache__", "reports", ".mypy_cache", ".ruff_cache"}
        return [path for path in ROOT.rglob("*") if path.is_file() and not hidden & set(path.parts)]
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
