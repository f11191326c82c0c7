"""A release that was inspected is opened again as it was, without its index where that was found to agree with the files."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from day0.checkpoint import folder as opening
from day0.engine.release import Release
from day0.stages.inspect import inspect
from day0.stages.reopen import reopen
from tests.zoo import checkpoint


def refused(*_: object) -> None:
    raise AssertionError("the index was read again")


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    found = Path(shutil.copytree(checkpoint("qwen3_moe"), tmp_path / "sharded"))
    assert len(list(found.glob("model-*.safetensors"))) > 1
    return found


def places(release: Release) -> dict[str, tuple[str, int]]:
    return {name: (header.file, header.start) for name, header in release.checkpoint.headers.items()}


def test_what_agrees_with_its_index_is_opened_without_it(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspected, before = inspect(sharded), places(Release.open(sharded))
    monkeypatch.setattr(opening, "read_index", refused)
    assert places(reopen(inspected)) == before


def test_what_lies_twice_is_where_the_index_says(sharded: Path) -> None:
    """The last shard holds a tensor again that the index places in the first."""
    index = json.loads((sharded / "model.safetensors.index.json").read_text())["weight_map"]
    first, *_, last = sorted(set(index.values()))
    name = next(name for name, file in index.items() if file == first)
    copies = load_file(sharded / last) | {name: load_file(sharded / first)[name]}
    save_file(copies, sharded / last, metadata={"format": "pt"})
    inspected = inspect(sharded)
    assert any(finding.code == "D0207" for finding in inspected.findings)
    assert places(reopen(inspected))[name][0] == first
