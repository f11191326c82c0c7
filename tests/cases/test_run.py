"""What went wrong elsewhere when a model was run from disk or in batches."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from day0.checkpoint.folder import Checkpoint
from day0.engine.release import Release
from day0.spec.registry import families
from day0.spec.request import Request, Sampling
from day0.spec.workload import Workload
from day0.stages.plan_memory import plan_memory
from tests.engine.opened import expected, inspected, logits, processor, run, start
from tests.zoo import checkpoint
from tests.zoo.folder import read_shards


@pytest.mark.parametrize("prefix", ["", "language_model."])
def test_the_number_of_a_layer_is_found_by_its_pattern(prefix: str) -> None:
    """airllm #335: "invalid literal for int() with base 10: 'layers'". A tower's layers are no layers of the stack."""
    tower = "vision_tower.encoder.layers.7.o_proj.weight"
    claimed, left = families().get("kimi_k25").names.resolve(iter([f"{prefix}model.layers.7.self_attn.o_proj.weight", tower]))
    assert (list(claimed), left) == (["layers.7.mixer.o"], [tower])


@pytest.mark.parametrize("name", ["qwen3_moe-fp8", "deepseek_v3-nvfp4", "qwen3_moe-int4", "deepseek_v3-mxfp4"])
def test_streamed_from_disk_it_says_what_it_says_in_memory(name: str) -> None:
    """vllm #38718: with offload garbage, without it right; fused and single experts, and every width of number."""
    folder = checkpoint(name)
    prompts = expected(folder).prompts[:2]
    streamed, resident = (logits(start(folder, weights=weights), prompts) for weights in ("streamed", "resident"))
    assert all(torch.equal(one, other) for one, other in zip(streamed, resident, strict=True))


def test_streaming_needs_the_memory_of_two_layers() -> None:
    """vllm #57215, #54610: the offloaded model ran out of memory while it was loaded."""
    engine = start(checkpoint("mimo_v2_flash"), weights="streamed")
    streamed = engine.account()["weights"]
    assert streamed < start(checkpoint("mimo_v2_flash"), weights="resident").account()["weights"] * 2 / 3


@pytest.mark.parametrize("name", ["kimi_linear", "qwen3_next", "nemotron_h"])
def test_a_short_neighbour_leaves_recurrent_state_alone(name: str) -> None:
    """mlx-lm #1736, omlx #2119: pads updated the state of linear attention; rows of a batch were gibberish."""
    folder = checkpoint(name)
    prompts = [list(range(5, 5 + length)) for length in (2, 7, 5)]
    together = run(start(folder), *(Request(id=str(i), tokens=tuple(p), max_new=6) for i, p in enumerate(prompts)))
    for i, prompt in enumerate(prompts):
        alone = run(start(folder), Request(id="alone", tokens=tuple(prompt), max_new=6))
        assert together[str(i)].tokens == alone["alone"].tokens


@pytest.mark.parametrize("name", ["llama", "deepseek_v3"])
@pytest.mark.parametrize("length", [1024, 4096])
def test_a_long_prompt_streamed_layer_by_layer(name: str, length: int) -> None:
    """airllm #216, transformers #32582: a runner by layers broke beyond a certain length of prompt, with each release of its library."""
    prompt = tuple((7 * i) % 97 + 3 for i in range(length))
    request = Request(id="0", tokens=prompt, max_new=4, sampling=Sampling(logprobs=3))
    said = [run(start(checkpoint(name), weights=weights, context=length + 8), request)["0"] for weights in ("streamed", "resident")]
    assert said[0].tokens == said[1].tokens and len(said[0].tokens) == 4
    assert [output.scores for output in said[0].outputs] == [output.scores for output in said[1].outputs]


def test_files_of_another_program_are_not_opened(tmp_path: Path) -> None:
    """ktransformers #953: a path was turned into its parent and searched through."""
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("llama"), folder)
    (folder / "other_app" / "models").mkdir(parents=True)
    (folder / "other_app" / "models" / "broken.safetensors").write_bytes(b"\xff" * 64)
    found = Checkpoint.open(folder)
    assert not any("other_app" in header.file for header in found.headers.values())
    assert not [finding for finding in found.findings if finding.status == "fail"]


def test_a_tensor_after_a_shard_border_and_one_at_an_odd_byte(tmp_path: Path) -> None:
    """ds4 #341: ranges were planned from an assumed layout. Here one shard holds every second tensor, after an odd number of bytes."""
    source, folder = checkpoint("qwen3_moe"), tmp_path / "model"
    folder.mkdir()
    for file in source.iterdir():
        if "model" not in file.name:
            os.symlink(file, folder / file.name)
    tensors = sorted(read_shards(source).items())
    for shard, part in enumerate((tensors[::2], tensors[1::2]), 1):
        odd = {"aaa": torch.zeros(3, dtype=torch.uint8)} if shard == 1 else {}
        save_file(dict(part) | odd, folder / f"model-{shard:05d}-of-00002.safetensors")
    prompts = expected(source).prompts[:2]
    right = logits(start(source), prompts)
    for weights in ("resident", "streamed"):
        found = logits(start(folder, weights=weights), prompts)
        assert all(torch.equal(one, other) for one, other in zip(found, right, strict=True))


def test_weights_beyond_memory_do_not_fit_before_anything_is_read() -> None:
    """ktransformers #560: a model ran from swap at half a token a second without a word."""
    folder = checkpoint("mimo_v2_flash")
    size = sum(stored.bytes for stored in Checkpoint.open(folder).stored.values())
    small = replace(processor(), card=replace(processor().card, memory=size // 2))
    plan = plan_memory(inspected(folder), small, Workload(context=64, batch=1))
    assert plan.verdict == "does not fit"


def test_layers_of_four_and_of_eight_bits_in_one_model(tmp_path: Path) -> None:
    """ds4 #341: one quantisation of a model streamed, another one aborted. The second layer here is of 4 bits, the others are of 8."""
    eight, four, folder = checkpoint("qwen3_moe-fp8"), checkpoint("qwen3_moe-mxfp4"), tmp_path / "model"
    folder.mkdir()
    for file in eight.iterdir():
        if "model" not in file.name:
            os.symlink(file, folder / file.name)
    kept = {name: tensor for name, tensor in read_shards(eight).items() if ".layers.1." not in name}
    save_file(kept | {name: tensor for name, tensor in read_shards(four).items() if ".layers.1." in name}, folder / "model.safetensors")
    kinds = {located.format for index in range(3) for located in Release.open(folder).layer(index).values()}
    assert {"mxfp4", "fp8_block"} <= kinds
    prompts = expected(eight).prompts[:2]
    streamed, resident = (logits(start(folder, weights=weights), prompts) for weights in ("streamed", "resident"))
    assert all(torch.equal(one, other) and torch.isfinite(one).all() for one, other in zip(streamed, resident, strict=True))
