"""A healthy model passes; a planted fault fails, and is found in its layer and its part."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.evidence import RUNGS
from day0.spec.registry import checks, kernels, ops
from day0.spec.reports.validate import ValidateReport
from day0.stages.validate import pick
from tests.validate.planted import Fault, exchanged, other_scale, part, validate
from tests.zoo import checkpoint, names

QUICK = {  # one for each way a stream, a choice or a format goes; the others are behind `slow`
    "llama", "qwen2", "olmoe", "qwen3_moe", "deepseek_v3", "deepseek_v3-fp8", "deepseek_v32", "glm_moe_dsa", "gpt_oss", "longcat_flash",
    "llama4_text", "minimax_m2", "mimo_v2_flash", "mistral4", "qwen3_moe-int4", "qwen3_moe-mxfp4", "qwen3_moe-nvfp4", "qwen3_moe-gptq",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names()])
def test_healthy_models_pass_in_float32_and_bfloat16(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    report = validate(monkeypatch, checkpoint(name))
    assert report.first_divergence is None, report.first_divergence
    assert report.verdict == "pass"
    assert [(rung.name, rung.verdict) for rung in report.rungs] == [(rung, "pass") for rung in RUNGS]
    assert {row.dtype for row in report.layer_errors} == {"float32", "bfloat16"}
    assert {row.phase for row in report.layer_errors} == {"prefill", "decode"}
    assert {finding.status for finding in report.findings} == {"pass"}
    assert ValidateReport.model_validate(report.to_dict()) == report


def test_every_check_of_the_ladder_looked_at_something(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, checkpoint("deepseek_v3-fp8"))
    scopes = {"weight", "operator", "layer", "selection", "rotary", "logits"}
    ladder = {check.code for _, check in checks().items() if check.scope in scopes}
    assert len(ladder) >= 18
    assert {finding.code for finding in report.findings} == ladder


FAULTS: dict[str, tuple[str, Fault, tuple[str, int, str]]] = {
    "eps of the norms of a layer": (
        "llama", part(1, "residual", lambda p: replace(p, norm=replace(p.norm, eps=1e-2))), ("layers", 1, "mixer")),
    "gate and up exchanged": ("llama", exchanged("layers.2.ffn.gate", "layers.2.ffn.up"), ("layers", 2, "ffn")),
    "experts' gate and up exchanged": (
        "qwen3_moe", exchanged("layers.2.ffn.experts.gate", "layers.2.ffn.experts.up"), ("layers", 2, "ffn")),
    "bias dropped": ("qwen2", part(1, "mixer", lambda m: replace(m, bias=False)), ("layers", 1, "mixer")),
    "attention scaled by 1.05": ("mixtral", part(1, "mixer", lambda m: replace(m, scale=m.scale * 1.05)), ("layers", 1, "mixer")),
    "query norm dropped": ("qwen3", part(0, "mixer", lambda m: replace(m, qk_norm=None)), ("layers", 0, "mixer")),
    "rotation interleaved": (
        "llama", part(0, "mixer", lambda m: replace(m, rope=replace(m.rope, interleaved=True))), ("layers", 0, "mixer")),
    "rotation two percent faster": (
        "llama", part(0, "mixer", lambda m: replace(m, rope=replace(m.rope, theta=m.rope.theta * 0.98))), ("layers", 0, "rotary")),
    "context not stretched": (
        "llama_yarn", part(0, "mixer", lambda m: replace(m, rope=replace(m.rope, stretch="none"))), ("layers", 0, "rotary")),
    "routed experts scaled by 2.4": (
        "deepseek_v3", part(2, "ffn", lambda f: replace(f, router=replace(f.router, scale=2.4))), ("layers", 2, "router")),
    "correction bias dropped": (
        "deepseek_v3", part(2, "ffn", lambda f: replace(f, router=replace(f.router, bias=False))), ("layers", 2, "router")),
    "groups ignored": (
        "deepseek_v3", part(1, "ffn", lambda f: replace(f, router=replace(f.router, groups=1, top_groups=1))), ("layers", 1, "router")),
    "weights not renormalised": (
        "qwen3_moe", part(0, "ffn", lambda f: replace(f, router=replace(f.router, renormalise=not f.router.renormalise))),
        ("layers", 0, "router")),
    "shared experts left out": ("deepseek_v3", part(1, "ffn", lambda f: replace(f, shared_width=0)), ("layers", 1, "ffn")),
    "scale of another weight": (
        "deepseek_v3-fp8", other_scale("layers.1.mixer.o", "layers.0.mixer.o"), ("weights", 1, "mixer")),
    "scale of another expert": (
        "qwen3_moe-fp8", other_scale("layers.1.ffn.experts.down", "layers.1.ffn.experts.down"), ("weights", 1, "ffn")),
    "eps of the latent norms": (
        "deepseek_v3", part(2, "mixer", lambda m: replace(m, norm=replace(m.norm, eps=1e-2))), ("layers", 2, "mixer")),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_is(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    name, plant, (rung, layer, place) = FAULTS[fault]
    report = validate(monkeypatch, checkpoint(name), plant)
    found = report.first_divergence
    assert report.verdict == "fail" and found is not None
    assert (found.rung, found.layer, found.part) == (rung, layer, place), found
    assert any(finding.code == found.code and finding.status == "fail" for finding in report.findings)


def wrong_kernel(monkeypatch: pytest.MonkeyPatch, file: str, change: Any) -> None:
    loaded = kernels()
    implementation = loaded.get(file)
    monkeypatch.setitem(loaded._loaded, file, replace(implementation, fn=lambda *a, **k: change(implementation.fn(*a, **k))))


@pytest.mark.parametrize(("name", "file", "op"), [
    ("deepseek_v3", "latent_attention_torch", "latent_attention"), ("llama", "rms_norm_torch", "rms_norm"),
    ("mixtral", "experts_torch", "experts"),
])  # fmt: skip
def test_a_wrong_implementation_is_found_among_the_operators(monkeypatch: pytest.MonkeyPatch, name: str, file: str, op: str) -> None:
    wrong_kernel(monkeypatch, file, lambda result: result * 1.01)
    report = validate(monkeypatch, checkpoint(name), until="operators")
    found = report.first_divergence
    assert found is not None and found.rung == "operators" and op in found.statistic
    assert [rung.name for rung in report.rungs] == ["weights", "operators"]


def test_truncation_is_found_though_its_error_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncated(x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
        exact = ops().get("rms_norm").reference(x.float(), weight.float(), *rest)
        return (exact.view(torch.int32) & ~0xFFFF).view(torch.float32).to(x.dtype) if x.dtype == torch.bfloat16 else exact

    loaded = kernels()
    monkeypatch.setitem(loaded._loaded, "rms_norm_torch", replace(loaded.get("rms_norm_torch"), fn=truncated))
    report = validate(monkeypatch, checkpoint("qwen3"), until="operators")
    assert report.verdict == "fail"
    assert "D0603" in {finding.code for finding in report.findings if finding.status == "fail"}


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
