"""Releases of the zoo as sparse copies, changed, and what `day0 inspect` says of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from day0.cli.app import main
from day0.spec.reports.inspect import InspectReport
from tests.checkpoint.shards import Tensor, write_release
from tests.zoo import checkpoint

Tensors = dict[str, Tensor]
Told = tuple[str, str, str]
Edit = Callable[[Tensors, dict[str, Any]], None]
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def tensors_of(name: str | Path) -> Tensors:
    """Name → type and shape, of a release of the zoo or of a folder, as safetensors reads them."""
    found: Tensors = {}
    for file in sorted(base_of(name).glob("model-*.safetensors")):
        with safe_open(file, "np") as shard:
            found |= {key: (shard.get_slice(key).get_dtype(), shard.get_slice(key).get_shape()) for key in shard.keys()}  # noqa: SIM118
    return found


def base_of(name: str | Path) -> Path:
    return name if isinstance(name, Path) else checkpoint(name)


def write(folder: Path, name: str | Path, edit: Edit | None = None, shards: int = 2) -> dict[str, str]:
    """A sparse copy after `edit` of its tensors and configuration; returns its weight map."""
    base, tensors = base_of(name), tensors_of(name)
    config = json.loads((base / "config.json").read_text())
    if edit:
        edit(tensors, config)
    names = list(tensors)
    step = -(-len(names) // shards)
    weight_map = write_release(folder, [{key: tensors[key] for key in names[i : i + step]} for i in range(0, len(names), step)], config)
    for file in FILES:
        if (base / file).is_file() and not (folder / file).exists():
            (folder / file).write_bytes((base / file).read_bytes())
    return weight_map


class Inspected:
    """The command's exit code and report."""

    def __init__(self, folder: Path, *options: str) -> None:
        reports = folder.parent / f"{folder.name}-reports"
        self.code = main(["inspect", str(folder), "--reports", str(reports), "--json", *options])
        (path,) = reports.glob("*/*/inspect.yaml")
        self.report = InspectReport.read(path)

    @property
    def told(self) -> list[Told]:
        """(code, status, subject) of what did not pass."""
        return [(finding.code, finding.status, finding.subject) for finding in self.report.findings if finding.status != "pass"]

    def found(self, code: str) -> str:
        """What the findings of one code say."""
        return " | ".join(f"{f.expected}: {f.found} ({f.hint})" for f in self.report.findings if f.code == code)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "model"
