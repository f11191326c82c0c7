"""Sizes of released models from their published configurations, and a text model that lies beside a vision tower."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from day0.checkpoint.config import Config
from day0.engine.release import Release, recognise, specs
from tests.engine.opened import expected, logits, start
from tests.zoo import checkpoint

FULL = [*range(4, 93, 4), 93]
PATTERN = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
KIMI_K3 = dict(  # huggingface.co/moonshotai/Kimi-K3, config.json, text_config
    model_type="kimi_linear", vocab_size=163840, hidden_size=7168, hidden_act="situ", attn_res_block_size=12, num_hidden_layers=93,
    rms_norm_eps=1e-5, intermediate_size=33792, first_k_dense_replace=1, moe_layer_freq=1, moe_intermediate_size=3072,
    routed_expert_hidden_size=3584, latent_moe_use_norm=True, num_experts=896, num_experts_per_token=16, num_shared_experts=2,
    num_attention_heads=96, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
    mla_use_nope=True, mla_use_output_gate=True, max_position_embeddings=1048576,
    linear_attn_config=dict(
        kda_layers=[i for i in range(1, 94) if i not in FULL], full_attn_layers=FULL, num_heads=96, head_dim=128,
        short_conv_kernel_size=4, gate_lower_bound=-5.0, use_full_rank_gate=True,
    ),
)  # fmt: skip
QWEN = dict(  # huggingface.co/Qwen/Qwen3.5-397B-A17B, config.json, text_config
    model_type="qwen3_5_moe_text", vocab_size=248320, hidden_size=4096, num_hidden_layers=60, full_attention_interval=4,
    num_attention_heads=32, num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=64,
    linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4, num_experts=512, num_experts_per_tok=10,
    moe_intermediate_size=1024, shared_expert_intermediate_size=1024, max_position_embeddings=262144,
)  # fmt: skip
NEMOTRON = dict(  # huggingface.co/nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8, config.json
    model_type="nemotron_h", vocab_size=131072, hidden_size=4096, hybrid_override_pattern=PATTERN, num_attention_heads=32,
    num_key_value_heads=2, head_dim=128, mamba_num_heads=128, mamba_head_dim=64, n_groups=8, ssm_state_size=128, conv_kernel=4,
    n_routed_experts=512, num_experts_per_tok=22, moe_intermediate_size=2688, moe_latent_size=1024,
    moe_shared_expert_intermediate_size=5376, max_position_embeddings=262144,
)  # fmt: skip
MINIMAX = dict(  # arXiv 2501.08313, table of the model's shape
    model_type="minimax_text_01", vocab_size=200064, hidden_size=6144, num_hidden_layers=80, attn_type_list=[*[0] * 7, 1] * 10,
    num_attention_heads=64, num_key_value_heads=8, head_dim=128, num_local_experts=32, num_experts_per_tok=2, intermediate_size=9216,
    max_position_embeddings=10240000, rotary_dim=64,
)  # fmt: skip
PUBLISHED = {  # billions of parameters, in all and for one token (the embedding table not counted for a token)
    "kimi_k3": (dict(model_type="kimi_k3", text_config=KIMI_K3), 2779.48, 104.2),
    "qwen3_5_moe": (dict(model_type="qwen3_5_moe", text_config=QWEN), 396.35, 16.3),
    "nemotron_h": (NEMOTRON, 120.67, 12.2),
    "minimax_text_01": (MINIMAX, 456.09, 47.2),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters(name: str) -> None:
    data, total, active = PUBLISHED[name]
    config = Config(data)
    found, family = recognise(config)
    model = family.read(config)
    assert found == name and model.unread_keys == ()
    weights = [spec for _, spec in specs(model)]
    assert sum(spec.count for spec in weights) / 1e9 == pytest.approx(total, abs=0.01)
    assert sum(spec.active for spec in weights if spec.role != "embed") / 1e9 == pytest.approx(active, abs=0.1)


def test_language_model_beside_a_tower(tmp_path: Path) -> None:
    """The layout of Qwen3.5's release: nested configuration, prefixed names, tensors of a tower and of prediction layers."""
    source = checkpoint("qwen3_5_moe")
    config: dict[str, Any] = json.loads((source / "config.json").read_text())
    outer = dict(model_type="qwen3_5_moe", text_config=config, vision_config={}, tie_word_embeddings=config.pop("tie_word_embeddings"))
    config["mtp_num_hidden_layers"] = 1
    (tmp_path / "config.json").write_text(json.dumps(outer))
    tensors = {name: value for file in sorted(source.glob("model-*.safetensors")) for name, value in load_file(file).items()}
    renamed = {name.replace("model.", "model.language_model.", 1): value for name, value in tensors.items()}
    extra = {"model.visual.patch_embed.proj.weight": torch.ones(4, 3), "mtp.fc.weight": torch.ones(4, 8)}
    save_file(renamed | extra, tmp_path / "model.safetensors")
    release = Release.open(tmp_path)
    release.require_complete()
    assert (release.unclaimed, release.prediction, release.model.unread_keys) == ([], ["mtp.fc.weight"], ())
    right = expected(source).first(37)
    assert right.deviation(logits(start(tmp_path), right.prompts)) < 1e-5
