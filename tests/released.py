"""What is published of released models, and what configurations say of models that no family reads; figures with their sources."""

from typing import Any, NamedTuple

CLASS = "parameters of transformers 5.24's class for the release's config.json"
META = "the class of transformers 5.24 with its default configuration, which is the release's, counted without memory"


class Published(NamedTuple):
    """Billions of weights of the language model, towers and prediction layers left out."""

    total: float
    active: float | None  # for one token; None where it is not published for the same definition
    source: str


RELEASES = {
    "deepseek-ai--DeepSeek-V3": Published(671.03, 37.6, f"{CLASS}; README: 671B total, 37B activated"),
    "deepseek-ai--DeepSeek-R1": Published(671.03, 37.6, "README: 671B total, 37B activated, built on DeepSeek-V3"),
    "deepseek-ai--DeepSeek-V3.2": Published(671.88, 38.4, CLASS),
    "deepseek-ai--DeepSeek-V4-Flash": Published(284.33, 13.8, f"{CLASS}; README: 284B total, 13B activated"),
    "deepseek-ai--DeepSeek-V4-Pro": Published(1573.0, 49.8, f"{CLASS}; README: 1.6T total, 49B activated"),
    "moonshotai--Kimi-K2-Instruct": Published(1026.4, 33, "its safetensors headers; README: 1T total, 32B activated without the table"),
    "moonshotai--Kimi-K2.5": Published(1026.4, 33, f"{CLASS}: 1026.9 with a tower of 0.47"),
    "moonshotai--Kimi-K3": Published(2779.48, 104.2, "registry: 2779.93 with a tower of 0.45; README: 2.78T total, 104B activated"),
    "MiniMaxAI--MiniMax-M2.7": Published(228.69, 11.0, CLASS),
    "nvidia--MiniMax-M3-NVFP4": Published(426.17, 26.0, f"{CLASS}: 427.04 with a tower of 0.87"),
    "XiaomiMiMo--MiMo-V2-Flash": Published(308.8, 15.5, f"{CLASS}; README: 309B total, 15B activated"),
    "Qwen--Qwen3-235B-A22B": Published(235.09, 22.2, f"{CLASS}; model card: 235B total, 22B activated"),
    "Qwen--Qwen3-235B-A22B-FP8": Published(235.09, 22.2, f"{CLASS}; model card: 235B total, 22B activated"),
    "Qwen--Qwen3-30B-A3B": Published(30.53, 3.35, "model card: 30.5B total, 3.3B activated; digits by its safetensors headers"),
    "Qwen--Qwen3-8B": Published(8.19, 8.19, "model card: 8.2B"),
    "Qwen--Qwen3-32B": Published(32.76, 32.76, "model card: 32.8B"),
    "Qwen--Qwen3.5-35B-A3B": Published(34.66, None, f"{CLASS}, language model alone"),
    "Qwen--Qwen3.5-397B-A17B": Published(396.35, None, f"{CLASS}, language model alone"),
    "nvidia--Qwen3.5-122B-A10B-NVFP4": Published(122.11, None, f"{CLASS}, language model alone"),
    "openai--gpt-oss-120b": Published(116.83, 5.7, f"{CLASS}; model card: 116.8B total"),
    "openai--gpt-oss-20b": Published(20.91, None, "model card: 20.9B total"),
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct": Published(400.71, 17.2, f"{CLASS}, language model alone; model card: 400B, 17B activated"),
    "meta-llama--Meta-Llama-3.1-8B": Published(8.03, 8.03, "8.03B by its safetensors headers"),
    "meta-llama--Meta-Llama-3.1-70B": Published(70.55, 70.55, "70.6B by its safetensors headers"),
    "meta-llama--Meta-Llama-3.1-405B": Published(405.85, 405.85, "406B by its safetensors headers"),
    "mistralai--Mixtral-8x7B-v0.1": Published(46.7, 12.88, "arXiv 2401.04088: 47B total, 13B active; digits by its safetensors headers"),
    "zai-org--GLM-5": Published(743.91, 41.8, f"{CLASS}; README: 744B total, 40B activated"),
    "zai-org--GLM-5.1": Published(743.91, 41.8, CLASS),
    "zai-org--GLM-5.1-FP8": Published(743.91, 41.8, CLASS),
    "zai-org--GLM-5.2": Published(743.38, 41.3, f"{CLASS}; fewer than GLM-5.1: layers share indexers"),
    "zai-org--GLM-5.2-FP8": Published(743.38, 41.3, f"{CLASS}; fewer than GLM-5.1: layers share indexers"),
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8": Published(120.67, 12.8, CLASS),
    "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": Published(549.31, 56.1, f"{CLASS}; name: 550B total, 55B activated"),
}


class Unread(NamedTuple):
    """A model that no family reads: what its configuration says, and what is published of it."""

    config: dict[str, Any]
    total: float  # billions, language model alone
    source: str


LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_experts_per_tok": 8, "first_k_dense_replace": 1, "n_shared_experts": 1}
SIX = ["sliding_attention"] * 5 + ["full_attention"]
UNREAD = {
    "Mistral-Large-4": Unread(
        LATENT | {
            "model_type": "mistral_large4_text", "hidden_size": 6144, "num_hidden_layers": 72, "vocab_size": 204800, "intermediate_size": 24576,
            "moe_intermediate_size": 6144, "num_attention_heads": 64, "n_routed_experts": 128, "num_experts_per_tok": 4,
            "v_head_dim": 128, "qk_nope_head_dim": 64, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 32},
        1050.12, META),
    "Hy4": Unread(
        LATENT | {
            "model_type": "hy_v4", "hidden_size": 6144, "num_hidden_layers": 78, "vocab_size": 120832, "intermediate_size": 18432,
            "moe_intermediate_size": 2048, "num_attention_heads": 64, "n_routed_experts": 256, "q_lora_rank": 2048, "v_head_dim": 256,
            "qk_nope_head_dim": 192, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 32, "hc_mult": 4,
            "indexer_types": ["full", *(["full"] + ["shared"] * 3) * 20][:78]},
        769.91, f"{META}; 771.1 with its tower"),
    "Ling-3.0-Flash": Unread(
        LATENT | {
            "model_type": "bailing_hybrid", "hidden_size": 2560, "num_hidden_layers": 42, "vocab_size": 157184, "intermediate_size": 6144,
            "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 512, "num_shared_experts": 1, "v_head_dim": 128,
            "first_k_dense_replace": 2, "qk_nope_head_dim": 128, "linear_num_heads": 32, "linear_head_dim": 128,
            "layer_types": (["linear_attention"] * 5 + ["full_attention"]) * 7},
        124.41, META),
    "Inkling": Unread(
        {"model_type": "inkling_text", "hidden_size": 6144, "num_hidden_layers": 66, "vocab_size": 201024, "num_attention_heads": 64,
         "num_key_value_heads": 8, "head_dim": 128, "swa_num_key_value_heads": 16, "moe_intermediate_size": 3072, "n_routed_experts": 256,
         "num_experts_per_tok": 6, "n_shared_experts": 2, "d_rel": 16, "rel_extent": 1024,
         "layer_types": (["hybrid_sliding"] * 5 + ["hybrid"]) * 11},
        975.34, f"{META}; released as 975B, 41B active"),
    "Inkling-2-Small": Unread(
        {"model_type": "inkling2_text", "hidden_size": 4608, "num_hidden_layers": 48, "vocab_size": 201024, "num_attention_heads": 48,
         "num_key_value_heads": 8, "head_dim": 128, "moe_intermediate_size": 2304, "n_routed_experts": 384, "num_experts_per_tok": 8,
         "d_rel": 16, "rel_extent": 1024, "layer_types": (["hybrid_sliding"] * 5 + ["hybrid"]) * 8},
        593.72, f"{META}; released as 594B"),
    "Inkling-2-Mini": Unread(
        {"model_type": "inkling2_loop_text", "hidden_size": 2304, "num_hidden_layers": 24, "vocab_size": 201024, "num_attention_heads": 24,
         "num_key_value_heads": 8, "head_dim": 128, "moe_intermediate_size": 1152, "n_routed_experts": 128, "num_experts_per_tok": 8,
         "d_rel": 16, "rel_extent": 1024, "loop_gate_rank": 64, "layer_types": (["hybrid_sliding"] * 5 + ["hybrid"]) * 4},
        26.07, META),
    "Muse-Spark": Unread(
        {"model_type": "muse_spark_text", "hidden_size": 8192, "num_hidden_layers": 62, "vocab_size": 202048, "num_attention_heads": 128,
         "num_key_value_heads": 16, "head_dim": 64, "intermediate_size": 16384, "moe_intermediate_size": 4096, "num_local_experts": 256,
         "num_experts_per_tok": 8, "moe_hidden_size": 4096},
        819.99, f"{META}; 822.0 with its towers"),
    "A.X-K2-Light": Unread(
        LATENT | {
            "model_type": "axk2", "hidden_size": 2048, "num_hidden_layers": 48, "vocab_size": 163840, "intermediate_size": 5120,
            "moe_intermediate_size": 512, "num_attention_heads": 32, "n_routed_experts": 128, "kv_lora_rank": 128, "q_lora_rank": 384,
            "qk_rope_head_dim": 32, "v_head_dim": 64, "qk_nope_head_dim": 64, "index_topk": 2048, "index_head_dim": 128,
            "index_n_heads": 16, "gated_norm_rank": 16},
        20.31, META),
    "Beam-1.0": Unread(
        {"model_type": "beam", "hidden_size": 5120, "num_hidden_layers": 52, "vocab_size": 151936, "num_attention_heads": 48,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 20480, "moe_intermediate_size": 2560, "num_experts": 256,
         "num_experts_per_tok": 8, "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 49, "sliding_window": 512,
         "layer_types": SIX * 8 + SIX[:4]},
        501.27, f"{META}; released as 501B, 23B active"),
    "dots3-note": Unread(
        LATENT | {
            "model_type": "dots3_note_text", "hidden_size": 5120, "num_hidden_layers": 46, "vocab_size": 152064, "intermediate_size": 13824,
            "moe_intermediate_size": 1536, "num_attention_heads": 128, "n_routed_experts": 256, "q_lora_rank": 1024, "v_head_dim": 128,
            "qk_nope_head_dim": 128, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64, "per_layer_config": {
                f"{i:02d}": {"num_attention_heads": 64, "kv_lora_rank": 1024, "qk_nope_head_dim": 192} for i in range(2, 46) if i % 4 != 1}},
        279.55, META),
    "K-EXAONE": Unread(
        {"model_type": "exaone_moe", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 102400, "num_attention_heads": 32,
         "num_key_value_heads": 32, "intermediate_size": 16384, "moe_intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8,
         "num_shared_experts": 1, "first_k_dense_replace": 1},
        28.55, f"{META}; a small member of the family"),
    "ZAYA1-8B": Unread(
        {"model_type": "zaya", "hidden_size": 2048, "num_hidden_layers": 40, "vocab_size": 262272, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 128, "moe_intermediate_size": 2048, "num_experts": 16, "num_experts_per_tok": 1,
         "router_hidden_size": 256, "tie_word_embeddings": True},
        8.84, f"{META}; released as 8.8B, 1.3B active"),
    "Kolibri-1": Unread(
        {"model_type": "kolibri1", "hidden_size": 2560, "num_hidden_layers": 50, "vocab_size": 128000, "num_attention_heads": 48,
         "num_key_value_heads": 4, "head_dim": 128, "moe_intermediate_size": 512, "num_local_experts": 384, "num_experts_per_tok": 6,
         "shared_expert_intermediate_size": 512, "sliding_window": 513},
        78.10, f"{META}; released as 78B, 3.8B active"),
}  # fmt: skip
DISK = {  # release → (bytes of its files or tensors, tolerance in percent, source)
    "deepseek-ai--DeepSeek-V3": (688586727753, 0.05, "sizes of the files of its repository, prediction layer included"),
    "MiniMaxAI--MiniMax-M2.7": (230121630720, 0.0, "tensor bytes of MiniMax-M2, which has its shapes, by hf-mem's README"),
    "openai--gpt-oss-120b": (60.8 * (1 << 30), 0.2, "model card, table 1: 60.8 GiB"),
    "moonshotai--Kimi-K3": (1.56e12, 0.7, "1.56 TB in 118 files, unsloth's documentation"),
    "deepseek-ai--DeepSeek-V4-Pro": (865e9, 1.0, "about 865 GB, vLLM's recipe"),
}
