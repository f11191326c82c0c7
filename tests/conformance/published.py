"""Shapes of public releases, as their config.json states them, and the parameter counts that their makers publish."""

from typing import Any, NamedTuple

LATENT = {
    "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "norm_topk_prob": True, "attention_bias": False,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "moe_layer_freq": 1,
}  # fmt: skip
QWEN = {
    "model_type": "qwen3_moe", "head_dim": 128, "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True, "vocab_size": 151936, "max_position_embeddings": 40960,
    "rope_theta": 1e6, "hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_bias": False, "tie_word_embeddings": False,
    "use_sliding_window": False, "sliding_window": None,
}  # fmt: skip
GROUPED = {"num_key_value_heads": 8, "num_attention_heads": 32, "hidden_size": 4096, "num_hidden_layers": 32, "hidden_act": "silu"}


class Published(NamedTuple):
    config_class: str  # of transformers
    model_class: str
    config: dict[str, Any]
    total: str  # billions of parameters, with the digits that are published
    active: str  # for one token
    source: str


RELEASES = {
    "DeepSeek-V3": Published(
        "DeepseekV3Config", "DeepseekV3ForCausalLM",
        LATENT | {
            "model_type": "deepseek_v3", "vocab_size": 129280, "num_attention_heads": 128, "num_key_value_heads": 128,
            "n_routed_experts": 256, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
            "max_position_embeddings": 163840, "rope_theta": 10000, "rope_scaling": {
                "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096, "type": "yarn"}},
        "671.03", "37.55", "deepseek-ai/DeepSeek-V3 README: 671B total, 37B activated; digits by its safetensors headers"),
    "Kimi-K2": Published(
        "DeepseekV3Config", "DeepseekV3ForCausalLM",
        LATENT | {
            "model_type": "kimi_k2", "vocab_size": 163840, "num_attention_heads": 64, "num_key_value_heads": 64, "n_routed_experts": 384,
            "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.827, "first_k_dense_replace": 1, "max_position_embeddings": 131072,
            "rope_theta": 50000.0, "rope_scaling": {
                "beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096, "type": "yarn"}},
        "1026.4", "33", "moonshotai/Kimi-K2-Instruct README: 1T total, 32B activated without the embedding table; total by its headers"),
    "Qwen3-235B-A22B": Published(
        "Qwen3MoeConfig", "Qwen3MoeForCausalLM",
        QWEN | {
            "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94,
            "num_attention_heads": 64},
        "235.09", "22.19", "Qwen/Qwen3-235B-A22B model card: 235B total, 22B activated; digits by its headers"),
    "Qwen3-30B-A3B": Published(
        "Qwen3MoeConfig", "Qwen3MoeForCausalLM",
        QWEN | {
            "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48,
            "num_attention_heads": 32},
        "30.53", "3.35", "Qwen/Qwen3-30B-A3B model card: 30.5B total, 3.3B activated; digits by its headers"),
    "Mixtral-8x7B": Published(
        "MixtralConfig", "MixtralForCausalLM",
        GROUPED | {
            "model_type": "mixtral", "vocab_size": 32000, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
            "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "sliding_window": None,
            "tie_word_embeddings": False},
        "46.70", "12.88", "Mixtral of Experts, arXiv 2401.04088: 47B total, 13B active; digits by its headers"),
    "Llama-3.1-8B": Published(
        "LlamaConfig", "LlamaForCausalLM",
        GROUPED | {
            "model_type": "llama", "vocab_size": 128256, "intermediate_size": 14336, "max_position_embeddings": 131072,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
            "rope_scaling": {
                "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                "rope_type": "llama3"}},
        "8.03", "8.03", "meta-llama/Llama-3.1-8B: 8.03B by its headers"),
}  # fmt: skip
