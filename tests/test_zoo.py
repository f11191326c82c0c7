"""The builder of tiny checkpoints: what it stores is what its reference logits were computed from."""
import hashlib
import json
from collections import Counter

import pytest
import torch

pytest.importorskip("transformers")
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests import smollm2
from tests.zoo import assembly, cache, checkpoint, folder, fp8, layout, names, reference
from tests.zoo.family import Packing, catalog

LENGTHS = (5, 37, 130)
PACKED = [name for name in names() if catalog()[name].packing]
FP8 = [name for name in PACKED if isinstance(catalog()[name].packing, Packing)]
BLOCKS = [name for name in FP8 if None not in catalog()[name].packing.block]
COMPANIONS = ("_scale_inv", "scale", "scale_2", "_shape", "_zero_point", "qzeros", "scales", "g_idx")


def stored(name):
    family = catalog()[name]
    return family, assembly.stored_tensors(name, family, family.seed)


@pytest.mark.parametrize("name", names())
def test_folder_reads_back_to_stored_logits(name):
    path = checkpoint(name)
    model, expected = reference.read(path, catalog()[name]), load_file(path / "expected.safetensors")
    vocabulary = model.config.get_text_config().vocab_size
    for n in LENGTHS:
        ids, logits, greedy = (expected[f"{kind}_{n}"] for kind in ("input_ids", "logits", "greedy"))
        assert ids.shape == (1, n)
        assert logits.shape == (1, n, vocabulary)
        assert greedy.shape == (1, 8)
        torch.testing.assert_close(reference.logits(model, ids), logits, rtol=0, atol=1e-5)
        assert logits[0, -1].argmax() == greedy[0, 0]


@pytest.mark.parametrize("name", names())
def test_discrete_choices_are_clear_and_logits_have_unit_scale(name):
    notes = json.loads((checkpoint(name) / "expected.json").read_text())
    assert notes["greedy_margin"] >= 5e-3
    assert notes["topk_margin"] is None or notes["topk_margin"] >= 2e-4
    assert 0.7 < notes["logits_std"] < 1.4


@pytest.mark.parametrize("name", names())
def test_same_seed_gives_same_bytes(name, tmp_path):
    family, tensors = stored(name)
    folder.write_checkpoint(tmp_path, family, tensors)
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (checkpoint(name) / file.name).read_bytes(), file.name


@pytest.mark.parametrize("name", names())
def test_no_two_tensors_are_alike(name):
    family, tensors = stored(name)
    copies = layout.prediction_copies(family.keys.get("num_hidden_layers", 0))
    weights = {k: v.contiguous() for k, v in tensors.items() if k not in copies and not k.endswith(COMPANIONS)}
    digests = Counter(hashlib.sha256(value.view(torch.uint8).numpy().tobytes()).digest() for value in weights.values())
    assert max(digests.values()) == 1


@pytest.mark.parametrize("name", names())
def test_stored_types_and_index(name):
    path = checkpoint(name)
    weight_map = json.loads((path / "model.safetensors.index.json").read_text())["weight_map"]
    assert len(set(weight_map.values())) == 2
    for file in set(weight_map.values()):
        tensors = load_file(path / file)
        assert sorted(tensors) == sorted(k for k, v in weight_map.items() if v == file)
        for key, value in tensors.items():
            if key.endswith("e_score_correction_bias"):
                assert value.dtype == torch.float32
            elif name not in PACKED and value.is_floating_point():
                assert value.dtype == torch.bfloat16 or not torch.equal(value.bfloat16().float(), value), f"{key} needs no float32"


@pytest.mark.parametrize("name", [name for name in FP8 if name not in BLOCKS])
def test_fp8_of_rows_and_matrices_agrees_with_compressed_tensors(name):
    forward = pytest.importorskip("compressed_tensors.quantization.lifecycle.forward")
    arguments = pytest.importorskip("compressed_tensors.quantization").QuantizationArgs
    family, tensors = stored(name)
    args = arguments(num_bits=8, type="float", symmetric=True, strategy="tensor" if family.packing.block[0] is None else "channel")
    plain = fp8.unpack(tensors, family.packing)
    packed = [key for key, codes in tensors.items() if codes.dtype == torch.float8_e4m3fn]
    for key in packed:
        theirs = forward.dequantize(tensors[key], tensors[f"{key}_scale"].float(), args=args, dtype=torch.float32)
        torch.testing.assert_close(plain[key], theirs, rtol=1e-6, atol=0)
    assert packed


@pytest.mark.parametrize("name", BLOCKS)
def test_fp8_agrees_with_compressed_tensors(name):
    convert = pytest.importorskip("compressed_tensors.entrypoints.convert")
    family, tensors = stored(name)
    block = family.packing.block
    oracle = convert.FP8BlockDequantizer(weight_block_size=block, dtype=torch.float32)
    ragged = 0
    for key, codes in tensors.items():
        if codes.dtype == torch.float8_e4m3fn:
            scale = tensors[f"{key}_scale_inv"]
            theirs = oracle._create_dequantized_weight(codes, scale.float())
            torch.testing.assert_close(fp8.decode(codes, scale, block), theirs, rtol=1e-6, atol=0)
            ragged += codes.shape[0] % block[0] > 0
    assert ragged


def test_released_names():
    mixtral, deepseek, tied = stored("mixtral")[1], stored("deepseek_v3")[1], stored("llama_tied")[1]
    assert mixtral["model.layers.2.block_sparse_moe.experts.5.w2.weight"].shape == (56, 44)
    assert mixtral["model.layers.0.block_sparse_moe.gate.weight"].shape == (6, 56)
    assert deepseek["model.layers.1.mlp.gate.e_score_correction_bias"].shape == (12,)
    assert deepseek["model.layers.3.eh_proj.weight"].shape == (60, 120)
    assert torch.equal(deepseek["model.layers.3.shared_head.head.weight"], deepseek["lm_head.weight"])
    assert "model.layers.0.mlp.gate_proj.weight" in deepseek
    assert "lm_head.weight" not in tied


@pytest.mark.parametrize("name", ["llama", "kimi_k2", "deepseek_v3", "qwen3_moe"])
def test_rope_of_released_keys_is_read(name):
    family = catalog()[name]
    rope = layout.model_config(family, family.keys).rope_parameters
    scaling = family.keys["rope_scaling"] or {}
    assert json.loads((checkpoint(name) / "config.json").read_text())["rope_scaling"] == family.keys["rope_scaling"]
    assert "rope_theta" not in scaling
    assert rope["rope_theta"] == family.keys["rope_theta"]
    assert rope["rope_type"] == scaling.get("rope_type", scaling.get("type", "default"))
    assert scaling.items() <= rope.items()


def test_tokenizer_reads_and_round_trips():
    path = checkpoint("llama")
    tokenizer = AutoTokenizer.from_pretrained(path)
    notes = json.loads((path / "expected.json").read_text())
    expected = load_file(path / "expected.safetensors")
    for n, text in notes["texts"].items():
        assert tokenizer(text)["input_ids"] == expected[f"input_ids_{n}"][0].tolist()
    text = "Größe 12\n\t the tokens <|turn|> and"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False)
    assert chat == "<|begin|><|user|>Hi<|turn|><|assistant|>"


def test_cache_builds_once_and_leaves_nothing_after_a_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("DAY0_TEST_CACHE", str(tmp_path))
    calls = []

    def build(name, scratch):
        calls.append(name)
        (scratch / name).mkdir()
        if len(calls) == 1:
            raise ValueError(name)
        return scratch / name

    with pytest.raises(ValueError, match="tiny"):
        cache.once("group", "tiny", build)
    assert not (tmp_path / "group" / "tiny").exists()
    assert cache.once("group", "tiny", build) == cache.once("group", "tiny", build)
    assert len(calls) == 2
    assert [p.name for p in (tmp_path / "group").iterdir() if p.is_dir()] == ["tiny"]


@pytest.mark.slow
@pytest.mark.skipif(bool(smollm2.unavailable()), reason=smollm2.unavailable() or "")
def test_smollm2_answers():
    path = smollm2.checkpoint()
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=16, do_sample=False)
    answer = tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True)
    assert answer == "The capital of France is Paris."
