"""The community executor's model is what transformers loads by itself, whole and layer by layer."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")
import transformers
from safetensors.torch import load_file

from day0.checkpoint.folder import Checkpoint
from day0.community.executor import Community, steps
from day0.community.reference import Reference
from day0.community.selection import rule
from day0.community.skeleton import decoder_layers
from day0.spec.errors import Day0Error
from day0.spec.request import Request, Sampling
from tests.engine.opened import families_first
from tests.zoo import checkpoint, layout, names
from tests.zoo.family import catalog

PACKED = ("awq", "fp8", "gptq", "int4", "mxfp4", "mxfp8", "nvfp4")
OWN_CACHE = "minimax_text_01"  # its class asks for a cache of its own kind, which the executor does not make
BESIDE = ("vision", "visual", "projector")  # in names of towers, which text does not pass and the reference does not load
PLAIN = [name for name in names() if not any(f"-{form}" in name for form in PACKED)]


def ids_of(path: Path, length: int = 37) -> list[int]:
    return load_file(path / "expected.safetensors")[f"input_ids_{length}"][0].tolist()


@pytest.mark.parametrize("name", names())
def test_logits_are_those_of_the_stored_weights(name: str) -> None:
    """Expected logits were computed by transformers from the weights before packing."""
    path = checkpoint(name)
    expected = load_file(path / "expected.safetensors")
    reference = Reference.open(Checkpoint.open(path), torch.float32)
    for length in (5, 37, 130):
        found = reference.logits([expected[f"input_ids_{length}"][0].tolist()])[0]
        torch.testing.assert_close(found, expected[f"logits_{length}"][0], rtol=0, atol=5e-5)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_and_buffers_equal_from_pretrained(name: str, dtype: torch.dtype) -> None:
    path = checkpoint(name)
    ours = Reference.open(Checkpoint.open(path), dtype).model
    family = catalog()[name]
    settings = layout.model_config(family, json.loads((path / "config.json").read_text()))
    theirs = getattr(transformers, family.model_class).from_pretrained(path, config=settings, dtype=dtype)
    expected = {**dict(theirs.named_parameters()), **dict(theirs.named_buffers())}
    found = {**dict(ours.named_parameters()), **dict(ours.named_buffers())}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key].dtype == value.dtype, key
        assert any(word in key for word in BESIDE) or torch.equal(found[key], value), key


@pytest.mark.parametrize("name", families_first(names()))
def test_one_layer_alone_equals_that_layer_in_the_whole_model(name: str) -> None:
    path = checkpoint(name)
    release = Checkpoint.open(path)
    whole, streamed = Reference.open(release, torch.float32), Reference.open(release, torch.float32, range(0))
    ids = ids_of(path)
    seen: list[torch.Tensor] = []
    layers = decoder_layers(whole.model)[1]
    hooks = [layer.register_forward_hook(lambda _m, _i, out: seen.append(out[0][0] if isinstance(out, tuple) else out[0])) for layer in layers]
    whole.model(input_ids=torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    streams = list(whole.hidden(ids))
    handed = None
    for index, expected in enumerate(seen):
        run = streamed.layer(index, streams[index], ids=ids, handed=handed)
        handed = run.handed
        assert torch.equal(run.hidden_TD, expected)
    assert torch.equal(streamed.head(streams[-1]), whole.logits([ids])[0])
    assert all(parameter.is_meta for layer in decoder_layers(streamed.model)[1] for parameter in layer.parameters())


def test_a_layer_is_read_without_the_others() -> None:
    path = checkpoint("qwen3_moe")
    reference = Reference.open(Checkpoint.open(path), torch.float32, range(0))
    with reference.loaded(1):
        real = [i for i, layer in enumerate(reference.model.get_decoder().layers) if not any(p.is_meta for p in layer.parameters())]
    assert real == [1]


@pytest.mark.parametrize("name", ["qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])
def test_selection_is_seen_forced_and_repeated_from_scores(name: str) -> None:
    path = checkpoint(name)
    reference = Reference.open(Checkpoint.open(path), torch.float32)
    index = reference.layers - 1
    stream = list(reference.hidden(ids_of(path)))[index]
    run = reference.layer(index, stream)
    assert run.selection is not None
    again = rule(run.router, run.selection.logits_TE)
    assert torch.equal(again.experts_TK, run.selection.experts_TK)
    assert torch.equal(again.weights_TK, run.selection.weights_TK)
    same = reference.layer(index, stream, experts_TK=run.selection.experts_TK)
    assert torch.equal(same.hidden_TD, run.hidden_TD)
    shifted = (run.selection.experts_TK + 1) % run.selection.logits_TE.shape[1]
    other = reference.layer(index, stream, experts_TK=shifted)
    assert other.selection is not None
    assert torch.equal(other.selection.experts_TK, shifted)
    assert torch.equal(other.parts["mixer"], run.parts["mixer"])
    assert not torch.allclose(other.parts["ffn"], run.parts["ffn"])


@pytest.mark.parametrize("name", families_first(name for name in names() if name != OWN_CACHE))
def test_cached_scoring_and_greedy_text_equal_transformers(name: str) -> None:
    path = checkpoint(name)
    expected = load_file(path / "expected.safetensors")
    community = Community.open(Checkpoint.open(path), torch.float32)
    sequences = [expected[f"input_ids_{n}"][0].tolist() for n in (37, 5)]
    for manner in ({}, {"chunk": 7}, {"chunk": 16, "decode_from": 30}):
        for n, logits in zip((37, 5), community.score(sequences, **manner), strict=True):
            torch.testing.assert_close(logits, expected[f"logits_{n}"][0], rtol=0, atol=2e-4)
    for n, id in ((37, "a"), (130, "b")):
        community.add(Request(id=id, tokens=tuple(expected[f"input_ids_{n}"][0].tolist()), max_new=8))
    answers: dict[str, list[int]] = {"a": [], "b": []}
    while community.busy:
        for output in community.step():
            answers[output.id] += output.tokens
    assert answers["a"] == expected["greedy_37"][0].tolist()
    assert answers["b"] == expected["greedy_130"][0].tolist()


def test_requests_end_as_they_ask() -> None:
    path = checkpoint("llama")
    community = Community.open(Checkpoint.open(path), torch.float32)
    prompt = tuple(ids_of(path, 5))
    greedy = load_file(path / "expected.safetensors")["greedy_5"][0].tolist()
    community.add(Request(id="stop", tokens=prompt, max_new=8, stop_tokens=frozenset({greedy[2]})))
    community.add(Request(id="scored", tokens=prompt, max_new=1, sampling=Sampling(logprobs=2), prompt_logprobs=True))
    community.add(Request(id="gone", tokens=prompt, max_new=8))
    community.cancel("gone")
    outputs = []
    while community.busy:
        outputs += community.step()
    assert [(o.id, o.finish) for o in outputs if o.finish] == [("stop", "stop"), ("scored", "length")]
    scored = outputs[-1]
    assert len(scored.prompt_scores) == 4 and len(scored.scores[0].top) == 2
    assert community.step() == []


@pytest.mark.parametrize(("tokens", "problem"), [((), "empty"), ((10**6,), "vocabulary"), ((-1,), "vocabulary")])
def test_prompts_that_cannot_run_are_refused(tokens: tuple[int, ...], problem: str) -> None:
    community = Community.open(Checkpoint.open(checkpoint("llama")), torch.float32)
    with pytest.raises(Day0Error, match=problem):
        community.add(Request(id="x", tokens=tokens, max_new=1))


def test_steps_cover_the_sequence() -> None:
    assert steps(10, None, None) == [10]
    assert steps(10, 4, None) == [4, 4, 2]
    assert steps(10, 4, 7) == [4, 3, 1, 1, 1]
    assert steps(3, None, 0) == [1, 1, 1]


@pytest.mark.parametrize(("change", "problem"), [
    ({"model_type": "unheard_of", "architectures": ["Nobody"]}, "no class"),
    ({"num_attention_heads": "four"}, "transformers cannot"),
    ({"architectures": 3, "model_type": 4}, "no class"),
])  # fmt: skip
def test_a_configuration_that_transformers_cannot_read_is_a_located_error(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    path = checkpoint("llama")
    for file in path.iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((path / "config.json").read_text()) | change
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(Day0Error, match=problem) as caught:
        Reference.open(Checkpoint.open(tmp_path), torch.float32)
    assert "config.json" in str(caught.value)


def test_without_transformers_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def absent(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    from day0.community.extra import transformers

    with pytest.raises(Day0Error) as caught:
        transformers()
    assert "day0[reference]" in (caught.value.hint or "")
