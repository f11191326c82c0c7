"""Counts and sizes of released models against what is published of them."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from day0.stages.inspect import inspect
from tests.released import DISK, RELEASES, UNREAD
from tests.releases import alone, error, holds

BESIDE = Path(__file__).parents[2].parent / "shared"
CONFIGS, ZOO = BESIDE / "facts" / "released_configs", BESIDE / "zoo"
needs_configs = pytest.mark.skipif(not CONFIGS.is_dir(), reason="released configurations are not on this machine")
needs_ghosts = pytest.mark.skipif(not ZOO.is_dir(), reason="the generator of full-size sparse releases is not on this machine")


@pytest.mark.parametrize("name", UNREAD)
def test_usual_words(name: str, tmp_path: Path) -> None:
    """The published total lies in the bracket, which is at most a few percent wide."""
    report = alone(UNREAD[name].config, tmp_path)
    assert report.basis == "configuration" and holds(name, report)
    assert abs(error(report.parameters.total, UNREAD[name].total)) < 1.1
    assert report.parameters.most is None or report.parameters.most < 1.04 * report.parameters.total
    assert len(report.layers) == UNREAD[name].config["num_hidden_layers"]


@needs_configs
def test_released_configurations(tmp_path: Path) -> None:
    for name, published in RELEASES.items():
        config = json.loads((CONFIGS / f"{name}_config.json").read_text())
        report = alone(config, tmp_path / name)
        assert report.model.family and report.verdict == "sound" and report.config.unread == {}, name
        assert abs(error(report.parameters.total, published.total)) < 0.05, name
        if published.active:
            assert abs(error(report.parameters.active or 0, published.active)) < 1.2, name


def generator(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ZOO))
    return importlib.import_module("ghost")


@needs_ghosts
@pytest.mark.slow
def test_counts_and_sizes_of_full_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against tensors as another program lists them from the same configuration: whole numbers of tables and unused tensors apart."""
    ghost = generator(monkeypatch)
    for path in sorted(CONFIGS.glob("*_config.json")):
        name, config = path.name.removesuffix("_config.json"), json.loads(path.read_text())
        if not ghost.supported(config, name):
            continue
        main = [tensor for tensor in ghost.tensors_of(config) if tensor.part == "main"]
        report = alone(config, tmp_path / name)
        assert abs(report.parameters.total / sum(tensor.params for tensor in main) - 1) < 1e-5, name
        assert abs(report.bytes.total / sum(tensor.nbytes for tensor in main) - 1) < 0.005, name


@needs_ghosts
@pytest.mark.slow
@pytest.mark.parametrize("name", DISK)
def test_sizes_on_disk(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published, tolerance, _ = DISK[name]
    generator(monkeypatch).write(tmp_path, name)
    report = inspect(tmp_path / name)
    assert report.basis == "tensors" and not [finding for finding in report.findings if finding.status == "fail"]
    files = sum(file.bytes for file in report.files)
    assert min(abs(size / published - 1) for size in (files, report.bytes.total)) <= tolerance / 100
    assert abs(error(report.parameters.total, RELEASES[name].total)) < 0.05
    whole = alone(json.loads((CONFIGS / f"{name}_config.json").read_text()), tmp_path / "alone")
    assert [layer.kind for layer in whole.layers] == [layer.kind for layer in report.layers]
    assert (whole.structure.token_bytes, whole.structure.sequence_bytes) == (report.structure.token_bytes, report.structure.sequence_bytes)
