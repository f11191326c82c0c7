"""Faults of layers that were met in engines: each is found in its part, for what it is."""

from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from day0.engine.bind import Function
from day0.engine.release import Release
from day0.spec.activation import Activation
from day0.spec.registry import ops
from tests.mutation.fault import call, model, stale
from tests.validate.planted import Fault, part, validate
from tests.zoo import checkpoint

LAYERS = dict(only=["layers"], dtype="float32")


def other_pairs(m: Any) -> Any:
    return replace(m, indexer=replace(m.indexer, interleaved=not m.indexer.interleaved))


def test_an_indexer_turned_by_the_other_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """sglang #13495, vllm #28968: short prompts perfect. The default sequence is longer than what the indexer keeps."""
    report = validate(monkeypatch, checkpoint("deepseek_v32"), part(1, "mixer", other_pairs), layers="1", **LAYERS)
    first = report.first_divergence
    assert first is not None and (first.layer, first.part, first.pattern) == (1, "reads", "choice")


def test_a_prompt_too_short_for_the_indexer_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, checkpoint("deepseek_v32"), part(1, "mixer", other_pairs), layers="1", tokens=6, only=["operators"])
    assert report.verdict == "pass"
    assert any(finding.code == "D0805" and "index_select" in finding.found for finding in report.findings)


def biased(function: Function) -> Function:
    """Weights are gathered from the scores that the correction was added to."""

    def route(logits: torch.Tensor, top_k: int, rule: Any, bias: Any = None, given: Any = None) -> Any:
        weights, experts = function(logits, top_k, rule, bias, given)
        if bias is None:
            return weights, experts
        wrong = (logits.float().sigmoid() + bias).gather(-1, experts)
        return wrong / wrong.sum(-1, keepdim=True) * rule.scale, experts

    return route


def test_equal_experts_with_other_weights_are_a_fault_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers #39581, #41663: the correction steers the choice only."""
    call("route", biased)(monkeypatch)
    report = validate(monkeypatch, checkpoint("deepseek_v3"), layers="1", **LAYERS)
    failed = {finding.code for finding in report.findings if finding.status == "fail"}
    assert "D0705" in failed and "D0704" not in failed


@pytest.mark.parametrize(("fields", "hint"), [
    ({"limit": None}, "right with limit 1.5"), ({"offset": 0.0}, "right with offset 1"), ({"alpha": 1.0}, "right with alpha 1.702"),
    ({"kind": "gelu"}, "right with silu"), ({"limit_after": True}, "right with the gate limited before the function"),
])  # fmt: skip
def test_an_activation_without_its_details(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], hint: str) -> None:
    """transformers #40197: the clamp was not passed to the kernel; wrong only where activations are large. Each detail is told apart."""
    fault = part(1, "ffn", lambda f: replace(f, activation=replace(f.activation, **fields)))
    first = validate(monkeypatch, checkpoint("gpt_oss"), fault, layers="1", **LAYERS).first_divergence
    assert first is not None and (first.layer, first.part, first.operator, first.pattern) == (1, "ffn", "experts", hint)
    assert hint in first.line


def test_a_kernel_that_is_not_given_the_clamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the model knows of it."""

    def unclamped(function: Function) -> Function:
        return lambda *args, **kwargs: function(*(replace(one, limit=None) if isinstance(one, Activation) else one for one in args), **kwargs)

    call("experts", unclamped)(monkeypatch)
    first = validate(monkeypatch, checkpoint("gpt_oss"), layers="1", **LAYERS).first_divergence
    assert first is not None and (first.operator, first.pattern) == ("experts", "computed with no limit")


def side_by_side(release: Any) -> None:
    """Rows of gate and up are taken as halves, which are stored in turns."""
    for half in ("gate", "up"):
        for name in (f"layers.1.ffn.experts.{half}", f"layers.1.ffn.experts.{half}_bias"):
            located = release.tensors[name]
            pieces = tuple((replace(piece, cut=replace(piece.cut, interleaved=False)), stored) for piece, stored in located.pieces)
            release.tensors[name] = replace(located, pieces=pieces)


def test_halves_where_gate_and_up_are_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """foundation-model-stack #459: rows of both were interleaved, not split."""
    first = validate(monkeypatch, checkpoint("gpt_oss"), side_by_side, layers="1", **LAYERS).first_divergence
    assert first is not None and (first.operator, first.pattern) == ("experts", "right with rows of gate and up in turns")


def test_biases_of_experts_added_unweighted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Automodel #2591: k times the bias instead of once."""

    def unweighted(function: Function) -> Function:
        def experts(x: Any, weights: Any, chosen: Any, gate: Any, up: Any, down: Any, activation: Any, biases: Any, *rest: Any) -> Any:
            right = function(x, weights, chosen, gate, up, down, activation, (*biases[:2], biases[2] * 0), *rest)
            return right + biases[2][chosen].sum(1).to(right.dtype)

        return experts

    call("experts", unweighted)(monkeypatch)
    first = validate(monkeypatch, checkpoint("gpt_oss"), layers="0", **LAYERS).first_divergence
    assert first is not None and (first.part, first.operator) == ("ffn", "experts")
    assert first.pattern == "computed with biases of down not weighted"


def as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms by their reference: an implementation that was chosen for one formula need not know the other."""
    call("rms_norm", lambda _function: ops().get("rms_norm").reference)(monkeypatch)


@pytest.mark.parametrize(("name", "plus_one", "hint"), [("qwen3_next", False, "one added to the weight"), ("llama", True, "the weight alone")])
def test_the_last_norm_alone_reads_its_weight_otherwise(monkeypatch: pytest.MonkeyPatch, name: str, plus_one: bool, hint: str) -> None:
    """imp #1289: all layers right, perplexity doubled. The norm is a point of its own, before the logits."""

    def fault(release: Any) -> None:
        model(norm=replace(release.model.norm, plus_one=plus_one))(release)

    as_it_is_told(monkeypatch)
    report = validate(monkeypatch, checkpoint(name), fault, only=["layers", "model"], dtype="float32")
    first, last = report.first_divergence, report.layers[-1]
    assert first is not None and (first.rung, first.layer, first.part, first.code) == ("model", None, "norm", "D0808")
    assert first.pattern == f"right with {hint}" and first.line.startswith(f"first wrong at final norm, layers 0–{last} equal, ")
    assert {finding.code for finding in report.findings if finding.status == "fail"} >= {"D0808", "D0801"}


@pytest.mark.parametrize("fault", [lambda r: model(logit_scale=1.5)(r), part(1, "ffn", lambda f: replace(f, activation=Activation(kind="gelu")))])
def test_the_last_norm_is_right_where_something_else_is_wrong(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """The head, or a layer whose error every later stream has."""
    report = validate(monkeypatch, checkpoint("llama"), fault, only=["model"], dtype="float32")
    first = report.first_divergence
    assert first is not None and first.part == "logits" and [row.errors.ours < 1e-6 for row in report.norms] == [True]
    assert ("after the last norm (head), layers 0–" in first.line) == (report.depths[-1].errors.ours < 1e-4)


def test_weights_around_one_to_which_one_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """llmmanorg #151, mlx-vlm #2041: a converter had folded the one in, and it was added again, in every norm."""

    def fault(release: Any) -> None:
        norm = replace(release.model.norm, plus_one=True)
        layers = tuple(replace(layer, residual=replace(layer.residual, norm=norm)) for layer in release.model.layers)
        release.model = replace(release.model, norm=norm, layers=layers)

    as_it_is_told(monkeypatch)
    first = validate(monkeypatch, checkpoint("llama"), fault, only=["layers", "model"], dtype="float32").first_divergence
    assert first is not None and (first.rung, first.layer, first.operator, first.weights) == ("layers", 0, "rms_norm", "mixer_norm")
    assert first.pattern == "right with the weight alone"


@pytest.mark.parametrize(("name", "hint"), [("llama", "computed with one added to the weight"), ("qwen3_next", "computed with one added twice")])
def test_a_kernel_that_adds_one_more(monkeypatch: pytest.MonkeyPatch, name: str, hint: str) -> None:
    """The same where the model knows of it."""
    call("rms_norm", lambda function: lambda x, weight, *rest: function(x, weight + 1, *rest))(monkeypatch)
    first = validate(monkeypatch, checkpoint(name), layers="1", **LAYERS).first_divergence
    assert first is not None and (first.layer, first.operator, first.weights, first.pattern) == (1, "rms_norm", "mixer_norm", hint)


@pytest.mark.parametrize("count", [-1, 0, 1, 12])
def test_a_window_is_the_same_however_a_prompt_is_read(count: int) -> None:
    """mlxcel #405, #885, mistral.rs #2094: right below the window; beyond it a whole prompt, chunks and single tokens differed."""
    from tests.engine.opened import expected, logits, resident

    folder = checkpoint("mimo_v2_flash")
    window = next(layer.mixer.window for layer in Release.open(folder).model.layers if layer.mixer.window)
    right, engine = expected(folder).first(window + count), resident(folder)
    for manner in ({}, {"chunk": 5}, {"decode_from": 1}):
        assert right.deviation(logits(engine, right.prompts, **manner)) < 1e-5, manner


@pytest.mark.parametrize("change", [-1, 1])
def test_a_window_that_is_off_by_one_is_called_a_mask(monkeypatch: pytest.MonkeyPatch, change: int) -> None:
    """mlx-lm #390: self and 127 before, not 128; wrong from the first token that does not see all."""
    fault = part(1, "mixer", lambda m: replace(m, window=m.window + change))
    first = validate(monkeypatch, checkpoint("mimo_v2_flash"), fault, layers="1", **LAYERS).first_divergence
    assert first is not None and (first.part, first.pattern, first.row) == ("mixer", "mask", 11 + min(change, 0))


def test_chunks_alone_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """vllm #26042: unchunked prompts fine. Path by type shows which pair is wrong."""
    stale("latent")(monkeypatch)
    report = validate(monkeypatch, checkpoint("deepseek_v3"), layers="0", only=["layers"])
    failed = {finding.subject + finding.found for finding in report.findings if finding.status == "fail"}
    assert failed and not any("(prefill" in text for text in failed)
    assert {(row.phase, row.dtype) for row in report.layer_errors} == {
        (phase, dtype) for phase in ("prefill", "decode") for dtype in ("float32", "bfloat16")
    }


def test_one_expert_is_scaled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """sglang #86: experts of one device were scaled once more. The expert is named."""

    def twice(function: Function) -> Function:
        return lambda x, weights, chosen, *rest, **named: function(x, weights * (1 + 0.5 * (chosen == 5)), chosen, *rest, **named)

    call("experts", twice)(monkeypatch)
    first = validate(monkeypatch, checkpoint("qwen3_moe"), layers="2", **LAYERS).first_divergence
    assert first is not None and (first.part, first.operator, first.expert) == ("ffn", "experts", 5)


def test_the_experts_of_one_device_are_scaled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """sglang #86: half of the experts ran on another device, which scaled them once more. They are named, all of them and no other."""

    def twice(function: Function) -> Function:
        return lambda x, weights, chosen, *rest, **named: function(x, weights * (1 + 0.5 * (chosen >= 4)), chosen, *rest, **named)

    call("experts", twice)(monkeypatch)
    first = validate(monkeypatch, checkpoint("qwen3_moe"), layers="2", **LAYERS).first_divergence
    assert first is not None and (first.operator, first.expert, first.experts) == ("experts", None, [4, 5, 6])
    assert "experts 4-6" in first.line


@pytest.mark.parametrize(("name", "scope"), [("minimax_m2", "vector"), ("qwen3_moe", "head")])
def test_a_norm_of_queries_over_each_head_or_all_of_them(monkeypatch: pytest.MonkeyPatch, name: str, scope: str) -> None:
    """vllm #16311, #35932, mlx-lm #898: the norm was taken over one head where the weight is as wide as all, which it is in some releases."""
    from day0.engine.release import Release

    mixer = Release.open(checkpoint(name)).model.layers[0].mixer
    assert mixer.qk_norm_scope == scope

    def narrow(function: Function) -> Function:
        def norm(x: torch.Tensor, weight: Any, eps: float, *rest: Any) -> torch.Tensor:
            if x.shape[-1] != mixer.widths["q"]:
                return function(x, weight, eps, *rest)
            heads = x.unflatten(-1, (-1, mixer.qk_dim)).float()
            return (heads * torch.rsqrt(heads.square().mean(-1, keepdim=True) + eps)).flatten(-2).to(x.dtype) * weight

        return norm

    call("rms_norm", narrow)(monkeypatch)
    report = validate(monkeypatch, checkpoint(name), layers="0", **LAYERS)
    first = report.first_divergence
    assert (first is None) == (scope == "head")
    if first is not None:
        assert (first.part, first.operator, first.weights) == ("mixer", "rms_norm", "q_norm")


@pytest.mark.parametrize(("limit", "reached"), [(7.0, False), (0.5, True)])
def test_a_clamp_that_no_value_reaches_is_not_passed_over(monkeypatch: pytest.MonkeyPatch, limit: float, reached: bool) -> None:
    """transformers #40197: a clamp that was left out shows only where activations are large; a pass without one says nothing about it."""
    fault = part(0, "ffn", lambda f: replace(f, activation=replace(f.activation, limit=limit)))
    report = validate(monkeypatch, checkpoint("gpt_oss"), fault, layers="0", only=["operators"], dtype="float32")
    told = [finding.found for finding in report.findings if "the clamp of experts" in finding.found]
    assert report.verdict == "pass" and bool(told) != reached
