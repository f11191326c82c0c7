"""Families built on latent attention: full-size counts against transformers' classes, and what only the stored names tell."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from day0.blocks.mla import at_once
from day0.checkpoint.config import Config
from day0.checkpoint.folder import Checkpoint
from day0.engine.anatomy import parameters
from day0.engine.release import Release, recognise, specs
from day0.parts.dsa import Dsa
from day0.parts.mla import Mla
from day0.spec.model import Model
from day0.spec.temperature import Temperature
from tests.engine import opened
from tests.zoo import checkpoint

transformers = pytest.importorskip("transformers")
from transformers.models.mistral4.modeling_mistral4 import get_llama_4_attn_scale  # noqa: E402

SHARING = {"index_topk_freq": 4, "index_skip_topk_offset": 3}  # zai-org/GLM-5.2, config.json
K2 = dict(
    vocab_size=163840, hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_hidden_layers=61, n_routed_experts=384,
    num_attention_heads=64, num_key_value_heads=64, n_group=1, topk_group=1, first_k_dense_replace=1, num_experts_per_tok=8,
    n_shared_experts=1, routed_scaling_factor=2.827,
)  # fmt: skip # moonshotai/Kimi-K2.5, text_config
RELEASES: dict[str, tuple[str, str, dict[str, Any], float]] = {  # → config class, model class, keys, parameters as published, 10⁹
    "deepseek-ai/DeepSeek-V3.2": ("DeepseekV32Config", "DeepseekV32ForCausalLM", {}, 671.9),
    "zai-org/GLM-5.1": ("GlmMoeDsaConfig", "GlmMoeDsaForCausalLM", {}, 743.9),
    "zai-org/GLM-5.2": ("GlmMoeDsaConfig", "GlmMoeDsaForCausalLM", SHARING, 743.4),
    "moonshotai/Kimi-K2.5": ("DeepseekV3Config", "DeepseekV3ForCausalLM", K2, 1026.4),
    "mistralai/Mistral-Small-4": ("Mistral4Config", "Mistral4ForCausalLM", {}, 119.0),
    "skt/A.X-K1": ("AXK1Config", "AXK1ForCausalLM", {}, 519.0),
}


def described(config_class: str, keys: dict[str, Any]) -> tuple[Any, Model]:
    """transformers' configuration, and the model that we read from what it writes."""
    theirs = getattr(transformers, config_class)(**keys)
    config = Config(theirs.to_dict() | keys)
    return theirs, recognise(config)[1].read(config)


@pytest.mark.parametrize("release", RELEASES)
def test_full_size_counts(release: str) -> None:
    config_class, model_class, keys, published = RELEASES[release]
    theirs, model = described(config_class, keys)
    with torch.device("meta"):
        right = sum(tensor.numel() for tensor in getattr(transformers, model_class)(theirs).state_dict().values())
    total = sum(spec.count for _, spec in specs(model))
    assert total == right
    assert abs(total / 1e9 - published) < 0.06


def test_experts_that_return_their_input_have_no_weights() -> None:
    _, model = described("LongcatFlashConfig", {})
    assert abs(sum(spec.count for _, spec in specs(model)) / 1e9 - 560) < 1  # published: 560, of which 27 are active on average
    assert abs(sum(spec.active for _, spec in specs(model)) / 1e9 - 27) < 1


def test_layers_that_share_hold_no_indexer() -> None:
    _, model = described("GlmMoeDsaConfig", SHARING)
    mixers = [layer.mixer for layer in model.layers]
    own = [i for i, mixer in enumerate(mixers) if isinstance(mixer, Dsa) and mixer.indexer]
    assert own == [0, 1, *range(2, 78, 4)]
    assert [layer.index_source for layer in model.layers[:12]] == [None, None, None, 2, 2, 2, None, 6, 6, 6, None, 10]


def test_queries_grow_as_in_transformers() -> None:
    positions = torch.arange(1000)
    theirs = get_llama_4_attn_scale(positions[None], 0.1, 30).flatten()
    torch.testing.assert_close(Temperature(beta=0.1, context=30).factors(positions), theirs)


NAMES = ("deepseek_v32", "glm_moe_dsa", "glm_moe_dsa-shared", "kimi_k25", "mistral4", "axk1", "axk1-uncorrected", "longcat_flash")


@pytest.mark.parametrize("name", NAMES)
def test_everything_stored_is_used_and_every_key_is_read(name: str) -> None:
    release = Release.open(checkpoint(name))
    assert (release.missing, release.unclaimed, release.model.unread_keys) == ([], [], ())


def test_a_tower_is_counted_apart() -> None:
    release = Release.open(checkpoint("kimi_k25"))
    stored = Checkpoint.open(checkpoint("kimi_k25")).headers
    vision = sum(torch.Size(header.shape).numel() for name, header in stored.items() if name.startswith(("vision_tower.", "mm_projector.")))
    counted = parameters(release)
    assert counted.towers == {"vision": vision}
    assert counted.total + vision == sum(torch.Size(header.shape).numel() for header in stored.values())


def test_idle_experts_need_not_be_stored(tmp_path: Path) -> None:
    folder = tmp_path / "longcat"
    shutil.copytree(checkpoint("longcat_flash"), folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    idle = [name for name in index["weight_map"] if any(f".mlp.experts.{e}." in name for e in range(7, 11))]
    assert idle
    for file in set(index["weight_map"].values()):
        save_file({k: v for k, v in load_file(folder / file).items() if k not in idle}, folder / file, metadata={"format": "pt"})
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if name not in idle}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    release = Release.open(folder)
    assert (release.missing, release.unclaimed) == ([], [])


@pytest.mark.parametrize(("heads", "width", "few"), [
    (128, 256, 8), (16, 256, 8), (8, 256, 8), (64, 448, 4), (40, 128, 10), (61, 256, 1), (4, 36, 4), (6, 1020, 2), (7, 1020, 7), (2, 4096, 2),
])  # fmt: skip
def test_heads_that_are_expanded_together(heads: int, width: int, few: int) -> None:
    """2048 of their rows at the most, in eights, because some formats pack as many into a word; else all."""
    part = opened.described("deepseek_v3").layers[0].mixer
    assert isinstance(part, Mla)
    assert at_once(replace(part, heads=heads, qk_nope_head_dim=width - 20, v_head_dim=20)) == few
