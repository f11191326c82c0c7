"""A healthy model passes; what was asked for is compared. Planted faults are in tests/mutation."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.evidence import RUNGS
from day0.spec.registry import checks
from day0.spec.reports.validate import ValidateReport
from day0.stages.validate import pick
from tests.validate.planted import part, validate
from tests.zoo import checkpoint, names

QUICK = {  # one for each way a stream, a choice or a format goes; the others are behind `slow`
    "llama", "qwen3_moe", "deepseek_v3", "deepseek_v3-fp8", "deepseek_v32", "glm_moe_dsa", "gpt_oss", "longcat_flash",
    "llama4_text", "mimo_v2_flash", "mistral4", "qwen3_moe-int4", "qwen3_moe-mxfp4", "qwen3_moe-nvfp4",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names()])
def test_healthy_models_pass_in_float32_and_bfloat16(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    report = validate(monkeypatch, checkpoint(name))
    assert report.first_divergence is None, report.first_divergence
    assert report.verdict == "pass"
    assert [(rung.name, rung.verdict) for rung in report.rungs] == [(rung, "pass") for rung in RUNGS[:-1]]
    assert {row.dtype for row in report.layer_errors} == {"float32", "bfloat16"}
    assert {row.phase for row in report.layer_errors} == {"prefill", "decode"}
    assert {finding.status for finding in report.findings} == {"pass"}
    assert ValidateReport.model_validate(report.to_dict()) == report


def test_every_check_of_the_ladder_looked_at_something(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, checkpoint("deepseek_v3-fp8"))
    scopes = {"weight", "held", "operator", "layer", "selection", "rotary", "state", "positions", "references", "norm", "logits"}
    ladder = {check.code for _, check in checks().items() if check.scope in scopes}
    assert len(ladder) >= 19
    assert {finding.code for finding in report.findings} == ladder


def test_layers_alone_and_drawn_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, checkpoint("deepseek_v3"), layers="2", inputs="random")
    assert (report.verdict, report.layers) == ("pass", [2])
    assert {row.layer for row in report.layer_errors} == {2}
    assert [rung.verdict for rung in report.rungs] == ["pass", "pass", "pass", "not run"]
    fault = part(2, "ffn", lambda f: replace(f, router=replace(f.router, bias=False)))
    assert validate(monkeypatch, checkpoint("deepseek_v3"), fault, layers="2", inputs="random").verdict == "fail"
    assert validate(monkeypatch, checkpoint("deepseek_v3"), fault, layers="0-1").verdict == "pass"


def test_float32_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, checkpoint("olmoe"), dtype="float32")
    assert report.verdict == "pass" and {row.dtype for row in report.layer_errors} == {"float32"}


def test_the_weights_rung_needs_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, checkpoint("llama"), until="weights")
    assert (report.verdict, report.reference) == ("pass", "none")


def test_damaged_values_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NaN in one weight, zeros in another; both ways to decode agree on them."""
    from safetensors.torch import load_file, save_file

    for file in checkpoint("llama").iterdir():
        (tmp_path / file.name).symlink_to(file)
    shards = sorted(tmp_path.glob("model*.safetensors"))
    shard = next(file for file in shards if any("layers.1.mlp.gate" in name for name in load_file(file)))
    tensors = load_file(shard)
    name = next(name for name in tensors if "layers.1.mlp.gate" in name)
    tensors[name][0, 0] = torch.nan
    zero = next(name for name in tensors if name.endswith("o_proj.weight"))
    tensors[zero].zero_()
    shard.unlink()
    save_file(tensors, shard, metadata={"format": "pt"})
    report = validate(monkeypatch, tmp_path, until="weights")
    failed = {(finding.code, finding.subject) for finding in report.findings if finding.status == "fail"}
    assert failed == {("D0502", name), ("D0503", zero)}


@pytest.mark.parametrize(("text", "layers"), [("all", [0, 1, 2, 3]), ("2", [2]), ("1-3", [1, 2, 3]), ("0, 2-3", [0, 2, 3])])
def test_layers_are_picked(text: str, layers: list[int]) -> None:
    assert pick(text, 4) == layers


@pytest.mark.parametrize("text", ["4", "3-1", "x", "", "1-", "-1", "9" * 30])
def test_layers_that_are_not_there_are_refused(text: str) -> None:
    with pytest.raises(Day0Error):
        pick(text, 4)


def test_an_incomplete_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def incomplete(release: Release) -> None:
        release.missing.append("layers.0.mixer.q")

    with pytest.raises(Day0Error, match=r"layers\.0\.mixer\.q"):
        validate(monkeypatch, checkpoint("llama"), incomplete)
