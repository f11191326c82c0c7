"""`day0 validate` from the command line: report on stdout, progress on stderr, verdict as exit code."""

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from dataclasses import replace

from day0.cli.app import main
from day0.engine.release import Release
from day0.stages import validate as stage
from tests.zoo import checkpoint


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The chain up to map-ops, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for command in (["inspect", str(checkpoint("qwen3_moe"))], ["plan-memory"], ["map-ops"]):
        assert main(command) == 0
    return tmp_path / "reports"


def test_a_healthy_model_exits_with_0(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["validate", "--layer", "all", "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["verdict"], report["first_divergence"]) == ("pass", None)
    assert {"code", "status", "subject", "expected", "found", "hint"} == set(report["findings"][0])
    assert "Next: day0 run" in err
    assert list(reports.rglob("validate-layer.yaml"))
    assert main(["validate-layer", "--layer", "1", "--until", "weights", "--yaml"]) == 0
    assert "verdict: pass" in capsys.readouterr().out


def test_a_wrong_model_exits_with_1_and_names_the_place(
    reports: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(Release):
        @classmethod
        def open(cls, folder: Path) -> Release:
            release = Release.open(folder)
            layers = list(release.model.layers)
            layers[2] = replace(layers[2], mixer=replace(layers[2].mixer, scale=1.0))
            release.model = replace(release.model, layers=tuple(layers))
            return release

    monkeypatch.setattr(stage, "Release", Wrong)
    capsys.readouterr()
    assert main(["validate"]) == 1
    out, err = capsys.readouterr()
    assert "layer 2, gqa, paged_attention" in out and "day0 explain D07" in err


@pytest.mark.parametrize(("options", "problem"), [
    (["--layer", "7"], "there is no layer 7"), (["--layer", "x"], "cannot read layers"), (["--dtype", "int3"], "cannot compute in"),
    (["--until", "roof"], "roof"), (["--tokens", "1"], "--tokens"),
])  # fmt: skip
def test_what_cannot_be_done_exits_with_2(reports: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str) -> None:
    assert main(["validate", *options]) == 2
    assert problem in capsys.readouterr().err
