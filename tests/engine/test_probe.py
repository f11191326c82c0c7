"""One layer alone: the layers in a row are the model, and a choice of experts that is forced changes nothing else."""

from functools import cache

import pytest
import torch
from torch import Tensor

from day0.engine.probe import Call, LayerResult, Probe
from day0.engine.release import Release
from day0.spec.model import Layer
from tests.engine.opened import described, expected, families_first, load, planned
from tests.engine.test_logits import TOLERANCE
from tests.zoo import checkpoint, names

CHUNKS = {"whole": [37], "chunks": [20, 10, 7], "decode": [30, *[1] * 7]}


@cache
def release(name: str) -> Release:
    return Release.open(checkpoint(name))


def probe(name: str, dtype: str = "float32") -> Probe:
    return Probe.open(release(name), planned(checkpoint(name), load(dtype=dtype))[1], dtype)


def prompt(name: str) -> tuple[list[int], Tensor]:
    """37 tokens and their logits."""
    right = expected(checkpoint(name))
    return right.prompts[1], right.logits[1]


def through(one: Probe, ids: list[int], chunks: list[int], choices: list[Tensor | None] | None = None) -> list[LayerResult]:
    """Every layer on what the one before made."""
    stream, results = one.embed(ids), []
    for index in range(len(one.release.model.layers)):
        results.append(one.layer(index, stream, choices[index] if choices else None, chunks, ids=ids))
        stream = results[-1].hidden_TD
    return results


@pytest.mark.parametrize("name", families_first(names()))
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_layers_in_a_row_are_the_model(name: str, chunks: list[int]) -> None:
    one, (ids, right_TW) = probe(name), prompt(name)
    found_TW = one.head(through(one, ids, chunks)[-1].hidden_TD)
    assert (found_TW - right_TW).abs().max() <= TOLERANCE * expected(checkpoint(name)).range


@pytest.mark.parametrize("name", families_first(names()))
def test_what_a_layer_adds_is_told(name: str) -> None:
    """The stream after it is the stream before and what both sublayers added, where the residual is a plain sum."""
    one, (ids, _) = probe(name), prompt(name)
    stream = one.embed(ids)
    for index, layer in enumerate(release(name).model.layers):
        found = one.layer(index, stream, None, [len(ids)], ids=ids)
        if layer.residual.kind == "pre_norm" and layer.embedding is None:
            added = [found.parts[place] for place in ("mixer", "ffn") if place in found.parts]
            assert torch.equal(found.hidden_TD, sum(added, start=stream))
        assert (found.experts_TK is None) == (not is_routed(layer))
        stream = found.hidden_TD


def is_routed(layer: Layer) -> bool:
    return layer.ffn is not None and layer.ffn.kind == "moe_ffn"


def routed() -> list[str]:
    return [name for name in names() if any(is_routed(layer) for layer in described(name).layers)]


@pytest.mark.parametrize("name", routed())
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_a_layers_own_choice_forced_changes_nothing(name: str, chunks: list[int]) -> None:
    one, (ids, _) = probe(name), prompt(name)
    free = through(one, ids, chunks)
    forced = through(one, ids, chunks, [result.experts_TK for result in free])
    for before, after in zip(free, forced, strict=True):
        assert torch.equal(before.hidden_TD, after.hidden_TD)
        if before.experts_TK is not None:
            assert before.experts_TK.shape[0] == len(ids) and torch.equal(before.weights_TK, after.weights_TK)


@pytest.mark.parametrize("name", routed())
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_another_choice_forced_changes_the_experts_output_of_its_tokens_alone(name: str, chunks: list[int]) -> None:
    """Tokens 3 and 33 get the experts that they like least; what the router says stays its own."""
    one, (ids, _) = probe(name), prompt(name)
    index = next(i for i, layer in enumerate(release(name).model.layers) if is_routed(layer))
    stream = through(one, ids, [len(ids)])[index - 1].hidden_TD if index else one.embed(ids)
    free = one.layer(index, stream, None, chunks, ids=ids)
    forced_TK = free.experts_TK.clone()
    for token in (3, 33):
        forced_TK[token] = free.scores_TE[token].argsort()[: forced_TK.shape[1]]
    forced = one.layer(index, stream, forced_TK, chunks, ids=ids)
    moved_T = (free.parts["ffn"] - forced.parts["ffn"]).abs().flatten(1).amax(-1) / free.parts["ffn"].abs().max()
    assert (moved_T > 1e-2).nonzero().flatten().tolist() == [3, 33]
    assert moved_T.sort().values[-3] < 1e-6, "more than the rounding of products with other rows"
    assert "mixer" not in free.parts or torch.equal(free.parts["mixer"], forced.parts["mixer"])
    assert torch.equal(free.scores_TE, forced.scores_TE) and torch.equal(free.experts_TK, forced.experts_TK)


@pytest.mark.parametrize("name", ["mixtral", "deepseek_v3"])
def test_a_forced_choice_is_weighed_by_the_layers_own_scores(name: str) -> None:
    """The formula of the release on scores of the forced experts: normalised, and scaled in DeepSeek-V3."""
    one, (ids, _) = probe(name), prompt(name)
    index = len(release(name).model.layers) - 1
    rule, top_k = release(name).model.layers[index].ffn.router, release(name).model.layers[index].ffn.top_k
    stream = through(one, ids, [len(ids)])[index - 1].hidden_TD
    used: list[Tensor] = []

    def judge(call: Call) -> None:
        if call.op == "experts":
            used.extend(call.args[1:3])

    forced_TK = torch.arange(top_k).repeat(len(ids), 1)
    found = one.layer(index, stream, forced_TK, [len(ids)], judge)
    scores_TE = found.scores_TE.softmax(-1) if rule.score == "softmax" else found.scores_TE.sigmoid()
    right_TK = scores_TE[:, :top_k] / scores_TE[:, :top_k].sum(-1, keepdim=True) * rule.scale
    torch.testing.assert_close(used[0], right_TK)
    assert torch.equal(used[1], forced_TK)


def test_every_call_is_observed_in_its_place() -> None:
    one, (ids, _) = probe("deepseek_v3"), prompt("deepseek_v3")
    calls: list[Call] = []
    stream = one.embed(ids, calls.append)
    assert [(call.op, call.layer) for call in calls] == [("embedding", None)]
    calls.clear()
    result = one.layer(1, stream, None, [36, 1], calls.append)
    assert {call.layer for call in calls} == {1}
    assert [call.op for call in calls if "attention" in call.op] == ["attention", "latent_attention"]
    assert [call.phase for call in calls if "attention" in call.op] == ["prefill", "decode"]
    assert {call.place for call in calls} == {"residual", "mixer", "ffn"}
    calls.clear()
    one.head(result.hidden_TD, calls.append)
    assert [call.op for call in calls] == ["rms_norm", "linear"]
    assert calls[-1].result.shape == (37, release("deepseek_v3").model.vocab)


@pytest.mark.parametrize("name", ["llama", "deepseek_v3"])
def test_angles_are_those_of_the_positions(name: str) -> None:
    one = probe(name)
    rope = release(name).model.layers[0].mixer.rope
    positions_T = torch.tensor([0, 1, 100, 255])
    cos_TA, sin_TA = one.rotary(rope, positions_T)
    angles_TA = positions_T[:, None] * torch.tensor(rope.frequencies(), dtype=torch.float64)
    torch.testing.assert_close(cos_TA.double(), angles_TA.cos() * rope.attention_factor, rtol=0, atol=3e-5)
    torch.testing.assert_close(sin_TA.double(), angles_TA.sin() * rope.attention_factor, rtol=0, atol=3e-5)


def test_chunks_must_add_up() -> None:
    one, (ids, _) = probe("llama"), prompt("llama")
    with pytest.raises(AssertionError, match="do not add up"):
        one.layer(0, one.embed(ids), None, [3])
