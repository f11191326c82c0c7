"""What the families with several streams or compressed entries make of released configurations, and of what transformers writes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint.config import Config
from day0.engine.release import Release, recognise, specs
from tests.zoo import checkpoint

transformers = pytest.importorskip("transformers")

FLASH = {
    "architectures": ["DeepseekV4ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1,
    "expert_dtype": "fp4", "hc_eps": 1e-6, "hc_mult": 4, "hc_sinkhorn_iters": 20, "head_dim": 512, "hidden_act": "silu",
    "hidden_size": 4096, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512, "initializer_range": 0.02,
    "max_position_embeddings": 1048576, "model_type": "deepseek_v4", "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 64, "num_experts_per_tok": 6, "num_hidden_layers": 43,
    "num_hash_layers": 3, "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 8, "o_lora_rank": 1024,
    "q_lora_rank": 1024, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000, "routed_scaling_factor": 1.5,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 65536, "type": "yarn"},
    "scoring_func": "sqrtsoftplus", "sliding_window": 128, "swiglu_limit": 10.0, "tie_word_embeddings": False, "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 129280, "compress_rope_theta": 160000,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
}  # fmt: skip
PRO = FLASH | {
    "hidden_size": 7168, "index_topk": 1024, "moe_intermediate_size": 3072, "n_routed_experts": 384, "num_attention_heads": 128,
    "num_hidden_layers": 61, "o_groups": 16, "q_lora_rank": 1536, "routed_scaling_factor": 2.5,
    "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0],
}  # fmt: skip
SPARSE = [0, 0, 0, *[1] * 57]
M3 = {
    "architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl", "image_token_index": 200025, "vision_config": {},
    "text_config": {
        "hidden_size": 6144, "intermediate_size": 3072, "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 4,
        "head_dim": 128, "vocab_size": 200064, "max_position_embeddings": 1048576, "rms_norm_eps": 1e-6, "use_gemma_norm": True,
        "attention_output_gate": False, "rope_theta": 5000000, "rotary_dim": 64, "partial_rotary_factor": 0.5, "hidden_act": "swigluoai",
        "use_qk_norm": True, "tie_word_embeddings": False, "dense_intermediate_size": 12288, "shared_intermediate_size": 3072,
        "num_local_experts": 128, "num_experts_per_tok": 4, "n_shared_experts": 1, "scoring_func": "sigmoid", "use_routing_bias": True,
        "moe_layer_freq": SPARSE, "qk_norm_type": "per_head", "num_mtp_modules": 1, "swiglu_alpha": 1.702, "swiglu_limit": 7.0,
        "routed_scaling_factor": 2.0, "sparse_attention_config": {
            "use_sparse_attention": True, "sparse_index_dim": 128, "sparse_num_index_heads": 4, "sparse_topk_blocks": 16,
            "sparse_block_size": 128, "sparse_disable_index_value": SPARSE, "sparse_score_type": "max", "sparse_init_block": 0,
            "sparse_local_block": 1, "sparse_attention_freq": SPARSE}},
}  # fmt: skip
# Billions of parameters that transformers' class holds for the configuration, prediction layers and towers left out; config.json of
# deepseek-ai/DeepSeek-V4-Flash and -Pro, text_config of MiniMaxAI/MiniMax-M3 (released as 427B with its 0.87B tower).
RELEASED = {"DeepSeek-V4-Flash": (FLASH, "284.33", "13.80"), "DeepSeek-V4-Pro": (PRO, "1573.00", "49.78"), "MiniMax-M3": (M3, "426.17", "25.96")}


@pytest.mark.parametrize("name", RELEASED)
def test_sizes_of_releases(name: str) -> None:
    keys, total, active = RELEASED[name]
    config = Config(keys)
    model = recognise(config)[1].read(config)
    weights = [spec for _, spec in specs(model)]
    assert f"{sum(w.count for w in weights) / 1e9:.2f}" == total
    assert f"{sum(w.active for w in weights) / 1e9:.2f}" == active
    assert model.unread_keys == ()


@pytest.mark.parametrize(
    ("config_class", "model_class", "name"),
    [
        ("Glm5NextConfig", "Glm5NextForConditionalGeneration", "glm5_next"),
        ("Qwen4ExpTextConfig", "Qwen4ExpForCausalLM", "qwen4_exp"),
        ("DeepseekV4Config", "DeepseekV4ForCausalLM", "deepseek_v4"),
        ("MiniMaxM3VLConfig", "MiniMaxM3SparseForConditionalGeneration", "minimax_m3"),
    ],
)
def test_what_transformers_writes_is_read(config_class: str, model_class: str, name: str, tmp_path: Path) -> None:
    """The same model, under the names and keys that save_pretrained gives it."""
    source = checkpoint(name)
    keys = json.loads((source / "config.json").read_text())
    config: Any = getattr(transformers, config_class).from_dict(keys)
    getattr(transformers, model_class).from_pretrained(source, config=config).save_pretrained(tmp_path)
    shutil.copy(source / "tokenizer.json", tmp_path)
    ours, written = Release.open(source), Release.open(tmp_path)
    written.require_complete()
    assert written.unclaimed == []
    assert written.model.layers == ours.model.layers and written.model.collapse == ours.model.collapse
