"""What went wrong elsewhere when weights were read: too much of them, more than memory, or not where somebody asked for them to be."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from day0.checkpoint.folder import Checkpoint
from day0.engine import loading
from day0.engine.on_demand import OnDemand, alone, can_wait
from day0.engine.release import Located
from day0.spec.errors import Day0Error
from day0.spec.model import TensorSpec
from day0.spec.names import Cut, Names, Piece
from day0.spec.workload import Workload
from day0.stages.plan_memory import plan_memory
from tests.cli.conftest import Done, day0
from tests.engine.opened import inspected, processor
from tests.engine.test_packed import banks
from tests.zoo import checkpoint
from tests.zoo.tokenizer import CONFIG_IDS

__all__ = ["day0"]
Day0 = Callable[..., Done]


@contextmanager
def counted() -> Iterator[list[int]]:
    """Bytes of each read of a tensor while this lasts."""
    sizes, right = list[int](), loading.read

    def read(folder: Path, header: Any, out: memoryview, offset: int = 0) -> None:
        sizes.append(out.nbytes)
        right(folder, header, out, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "read", read)
        yield sizes


E, F, D = 8, 6, 10  # experts and their sizes


def bank(folder: Path, fused: bool) -> tuple[dict[str, Located], dict[str, torch.Tensor]]:
    """The experts of a layer beside a dense weight, in one tensor or one by one; and all of their values."""
    joined, down, dense = torch.randn(E, 2 * F, D), torch.randn(E, D, F), torch.randn(D, D)
    tensors = {"model.layers.0.dense.weight": dense}
    if fused:
        tensors |= {"model.layers.0.experts.gate_up": joined, "model.layers.0.experts.down": down}
    else:
        for e in range(E):
            tensors |= {f"model.layers.0.experts.{e}.gate_up.weight": joined[e].clone(), f"model.layers.0.experts.{e}.down.weight": down[e].clone()}
    (folder / "config.json").write_text(json.dumps({"model_type": "test"}))
    save_file(tensors, folder / "model.safetensors")
    axis, name = (1, "experts.{}") if fused else (0, "experts.{{e}}.{}")
    halves = tuple(Cut(target=f"ffn.experts.{half}", axis=axis, part=part, of=2) for part, half in enumerate(("gate", "up")))
    table = {name.format("gate_up"): halves, name.format("down"): "ffn.experts.down", "dense": "mixer.dense"}
    opened = Checkpoint.open(folder)
    found, _ = Names(layer="model.layers.{i}.", tensors=table, ends={}).resolve(iter(opened.stored))
    right = {"ffn.experts.gate": joined[:, :F], "ffn.experts.up": joined[:, F:], "ffn.experts.down": down, "mixer.dense": dense}
    located = {}
    for target, values in right.items():
        pieces = tuple((piece, opened.stored[piece.source]) for piece in found[f"layers.0.{target}"])
        spec = TensorSpec(name="w", axes="EFD", shape=tuple(values.shape), role="expert" if values.dim() == 3 else "linear")
        located[target] = Located(name=target, spec=spec, pieces=pieces)
    return located, right


@pytest.mark.parametrize("fused", [True, False])
def test_a_rank_reads_its_experts_and_the_dense_part(tmp_path: Path, fused: bool) -> None:
    """vllm #37136, Automodel #3663: each rank read 591 GB and kept 144 GB. Rank 1 of 4 holds experts 2 and 3."""
    located, right = bank(tmp_path, fused)
    own, share = range(2, 4), 0
    with counted() as sizes:
        for name, weight in located.items():
            for e in own if weight.spec.role == "expert" else [None]:
                one = weight if e is None else alone(weight, e)
                out = torch.empty(one.shape)
                loading.fill(tmp_path, one, "", out)
                assert torch.equal(out, right[name] if e is None else right[name][e][None])
                share += out.nbytes
    assert sum(sizes) == share == 4 * (2 * 3 * F * D + D * D)


@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4", "mxfp8", "fp8", "fp8_block"])
def test_of_a_packed_bank_only_the_expert_that_is_asked_for_is_read(tmp_path: Path, kind: str) -> None:
    """The same for packed experts in one tensor: a slice of it, with its own scales."""
    checkpoint = banks(tmp_path, kind)
    (stored,) = checkpoint.stored.values()
    spec = TensorSpec(name="w", axes="EFD", shape=stored.shape, role="expert")
    located = Located(name="w", spec=spec, pieces=((Piece(source=stored.name), stored),))
    assert can_wait(located)
    right = loading.decoded(tmp_path, stored, torch.float32)
    with counted() as sizes:
        found = OnDemand.of(located, tmp_path, torch.float32).expert(1)
    assert sum(sizes) <= stored.bytes / stored.shape[0] + 64
    assert torch.equal(found.decode(torch.empty(stored.shape[1:])), right[1])


LAYERS, WIDE = 12, 1024


def large(folder: Path) -> int:
    """A Llama of holes, written as sparse files, its tensors at odd bytes; → bytes."""
    folder.mkdir()
    shapes = {"model.embed_tokens.weight": (512, WIDE), "model.norm.weight": (WIDE,), "lm_head.weight": (512, WIDE)}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        shapes |= {f"{at}self_attn.{one}_proj.weight": (WIDE, WIDE) for one in "qkvo"}
        shapes |= {f"{at}mlp.{one}_proj.weight": (2048, WIDE) for one in ("gate", "up")} | {f"{at}mlp.down_proj.weight": (WIDE, 2048)}
        shapes |= {f"{at}{one}_layernorm.weight": (WIDE,) for one in ("input", "post_attention")}
    header: dict[str, Any] = {"aaa": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}
    end = 3
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name], end = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}, end + size
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": WIDE, "intermediate_size": 2048, "vocab_size": 512,
        "num_hidden_layers": LAYERS, "num_attention_heads": 16, "num_key_value_heads": 16, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
        "max_position_embeddings": 256, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config | CONFIG_IDS))
    for file in checkpoint("llama").iterdir():
        if "token" in file.name:
            os.symlink(file, folder / file.name)
    return end


def test_a_model_that_is_streamed_stays_under_two_fifths_of_its_size(day0: Day0, tmp_path: Path) -> None:
    """llama.cpp #25257, #26003, ds4 #437: the page cache and an own cache fought; nobody said what a token reads."""
    size = large(tmp_path / "large")
    for command in (("inspect", "large"), ("plan-memory", "--context", "64", "--batch", "1", "--chunk", "32"), ("map-ops",)):
        assert day0(*command).code == 0
    command = [sys.executable, "-m", "day0", "run", "Once", "--raw", "--max-new", "3", "--weights", "streamed", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    memory = json.loads(done.stdout)["memory"]
    assert memory["process_peak"] - memory["process_before"] < 0.4 * size
    assert 0.9 * size < memory["read"] < 1.2 * size


def test_memory_that_the_host_does_not_have_is_refused(day0: Day0) -> None:
    """vllm #42348: 200 GiB were accepted on a host of 176."""
    assert day0("inspect", checkpoint("llama")).code == 0
    done = day0("plan-memory", "--host-memory", "1000000")
    assert done.code == 2 and "of the host's memory" in done.error


def test_what_was_asked_for_and_changes_nothing_is_said(day0: Day0) -> None:
    """vllm #51396, #56283: an option was accepted and printed, and nothing was offloaded."""
    assert day0("inspect", checkpoint("llama")).code == 0
    done = day0("plan-memory", "--host-memory", "0.001", "--json")
    assert done.code == 0 and any("changes nothing" in said for said in done.json["assumptions"])
    assert not any("host-memory" in said for said in day0("plan-memory", "--json").json["assumptions"])
    assert day0("map-ops").code == 0
    done = day0("run", "Once", "--raw", "--max-new", "1", "--weights", "streamed", "--executor", "community")
    assert done.code == 2 and "keeps weights resident" in done.error


def test_streamed_weights_are_where_they_were_asked_to_be() -> None:
    """The same, after loading: what the engine holds is what the plan for streamed weights says, and less than all of them."""
    folder = checkpoint("mimo_v2_flash")
    plan = plan_memory(inspected(folder), processor(), Workload(context=64, batch=1, weights="streamed"))
    whole = plan_memory(inspected(folder), processor(), Workload(context=64, batch=1))
    assert plan.workload.weights == "streamed" and plan.per_card[0].weights < 0.7 * whole.per_card[0].weights
    with pytest.raises(Day0Error, match="host's memory"):
        plan_memory(inspected(folder), processor(), Workload(host_memory=1 << 60))
