"""DeepSeek-V4: hyper-connections, a window beside compressed entries, experts chosen by token id in the first layer.

Lengths of entries are smaller than the release's, which the spelling of transformers allows; the variant has those of the release, and no
more entries than its prompts reach. Both hold a prediction layer in part.
"""
from dataclasses import replace

from tests.zoo.family import Family

HIDDEN, STREAMS = 60, 3
FAMILY = Family(
    config_class="DeepseekV4Config",
    model_class="DeepseekV4ForCausalLM",
    seed=1,
    expert=("w1", "w3", "w2"),
    extra={"mtp.0.e_proj.weight": (HIDDEN, HIDDEN), "mtp.0.enorm.weight": (HIDDEN,), "mtp.0.hc_head_base": (STREAMS,)},
    renames={
        "model.layers.": "layers.", "model.embed_tokens": "embed", "lm_head": "head", "model.norm": "norm", "model.hc_head.hc_": "hc_head_",
        ".self_attn.": ".attn.", ".mlp.": ".ffn.", ".attn_hc.": ".hc_attn_", ".ffn_hc.": ".hc_ffn_", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm", ".compressor.indexer.scorer.": ".indexer.", ".compressor.indexer.q_b_proj": ".indexer.wq_b",
        ".compressor.indexer.": ".indexer.compressor.", "compressor.kv_norm": "compressor.norm", "position_bias": "ape",
        "compressor.gate_proj": "compressor.wgate", "q_a_proj": "wq_a", "q_b_proj": "wq_b", "kv_proj": "wkv", "o_a_proj": "wo_a",
        "o_b_proj": "wo_b", "q_a_norm": "q_norm", ".sinks": ".attn_sink", "gate.e_score_correction_bias": "gate.bias",
        "shared_experts.gate_proj": "shared_experts.w1", "shared_experts.up_proj": "shared_experts.w3",
        "shared_experts.down_proj": "shared_experts.w2",
    },
    keys=dict(
        model_type="deepseek_v4", vocab_size=297, hidden_size=HIDDEN, moe_intermediate_size=36, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=1, head_dim=20, qk_rope_head_dim=8, q_lora_rank=28, o_groups=3, o_lora_rank=10, hidden_act="silu",
        attention_bias=False, attention_dropout=0.0, sliding_window=11, compress_ratios=[8, 0, 4, 4, 0],
        layer_types=["heavily_compressed_attention", "sliding_attention", *["compressed_sparse_attention"] * 2],
        compress_rates=dict(compressed_sparse_attention=4, heavily_compressed_attention=8), index_topk=5, index_head_dim=24,
        index_n_heads=16, rope_theta=10000, compress_rope_theta=160000, rope_scaling=dict(
            type="yarn", factor=8, beta_fast=32, beta_slow=1, original_max_position_embeddings=32),
        n_routed_experts=10, n_shared_experts=1, num_experts_per_tok=3, num_hash_layers=1, norm_topk_prob=True, routed_scaling_factor=1.5,
        scoring_func="sqrtsoftplus", topk_method="noaux_tc", swiglu_limit=1.5, hc_mult=STREAMS, hc_sinkhorn_iters=7, hc_eps=1e-6,
        num_nextn_predict_layers=1, max_position_embeddings=256, rms_norm_eps=1e-6, initializer_range=0.02, tie_word_embeddings=False,
    ),
)
RELEASED = {key: value for key, value in FAMILY.keys.items() if key not in ("layer_types", "compress_rates")}
VARIANTS = {"released": replace(FAMILY, seed=0, keys=RELEASED | dict(compress_ratios=[128, 4, 0, 0], num_hidden_layers=3))}
