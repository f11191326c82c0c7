"""State of released models, against figures that their makers and engines published. Configurations carry only what decides it."""

from typing import Any

import pytest

from day0.checkpoint.config import Config
from day0.engine import footprint
from day0.spec.model import Model
from day0.spec.registry import families

GIB = 1 << 30
DECODER = {"hidden_size": 64, "vocab_size": 64, "intermediate_size": 64, "max_position_embeddings": 1 << 20}
LATENT = DECODER | {
    "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
    "n_group": 8, "topk_group": 4,
    "num_hidden_layers": 61, "first_k_dense_replace": 3, "routed_scaling_factor": 2.5, "rope_theta": 10000,
}  # fmt: skip
GROUPED = DECODER | {"num_key_value_heads": 8, "head_dim": 128, "rope_theta": 1e6}
EXPERTS = {"num_experts": 160, "num_experts_per_tok": 8, "moe_intermediate_size": 2560, "decoder_sparse_step": 1, "norm_topk_prob": True}

ISCA = "DeepSeek-V3 at ISCA 2025, arXiv 2505.09343, table 1"
FIGURES = [
    ("DeepSeek-V3", "deepseek_v3", LATENT | {"model_type": "deepseek_v3"}, 70_272, ISCA),
    ("Qwen2.5-72B", "llama", GROUPED | {"model_type": "qwen2", "num_hidden_layers": 80, "num_attention_heads": 64}, 327_680, ISCA),
    ("Llama-3.1-405B", "llama", GROUPED | {"model_type": "llama", "num_hidden_layers": 126, "num_attention_heads": 128}, 516_096, ISCA),
    (
        "Qwen3-Coder-480B", "qwen3_moe",
        GROUPED | EXPERTS | {"model_type": "qwen3_moe", "num_hidden_layers": 62, "num_attention_heads": 96},
        62 * GIB // 262_144, "vllm-project/recipes pull request 12: 62.00 GiB for 262,144 tokens",
    ),
    (
        "Kimi-K2", "deepseek_v3", LATENT | {"model_type": "kimi_k2", "num_attention_heads": 64, "n_routed_experts": 384, "n_group": 1,
        "topk_group": 1, "first_k_dense_replace": 1}, 70_272, "vllm-project/recipes, Kimi-K2-Think: 715,072 tokens in 46.8 GiB a rank",
    ),
]  # fmt: skip


def read(family: str, config: dict[str, Any]) -> Model:
    model: Model = families().get(family).read(Config(config))
    return model


@pytest.mark.parametrize(("name", "family", "config", "figure", "source"), FIGURES, ids=[row[0] for row in FIGURES])
def test_state_of_one_token(name: str, family: str, config: dict[str, Any], figure: int, source: str) -> None:
    assert footprint.state_bytes(read(family, config), "bfloat16", chunk=512, context=4096) == (figure, 0), source


def test_tokens_in_a_pool() -> None:
    """Qwen3-Coder-480B: an engine printed 205,728 tokens for 48.66 GiB in pages of 16 (vllm-project/recipes pull request 12)."""
    model = read(*FIGURES[3][1:3])
    page = sum(pool.bytes for pool in footprint.state(model, "bfloat16", pages=1, page_size=16, sequences=1, chunk=16, context=16))
    assert abs(48.66 * GIB // page * 16 - 205_728) <= 0.0002 * 205_728


def test_the_latent_is_not_counted_as_expanded_heads() -> None:
    """The usual mistake charges two full heads: 1,748,992 bytes a token, 25 times too many."""
    token, _ = footprint.state_bytes(read("deepseek_v3", FIGURES[0][2]), "bfloat16", chunk=512, context=4096)
    assert token == 61 * (512 + 64) * 2
