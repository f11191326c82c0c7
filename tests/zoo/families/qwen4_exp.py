"""Qwen4-Exp: gated DeltaNet, sparse attention by blocks, low-rank hyper-connections, n-grams in the second layer, fused experts."""
from tests.zoo.family import Family

ROWS, PARTS, HEADS = 240, 3, 4  # four primes from 53 on, in whole sixteens
TABLE = {f"model.layers.1.ple.ple_embedding.ngram_embedding.shard_{i}.weight": (ROWS // PARTS, 44 // HEADS) for i in range(PARTS)}
FAMILY = Family(
    config_class="Qwen4ExpTextConfig",
    model_class="Qwen4ExpForCausalLM",
    seed=8,
    expert=None,
    without=r"ngram_embedding\.weight",
    extra=TABLE,
    keys=dict(
        model_type="qwen4_exp_text", vocab_size=292, hidden_size=60, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        head_dim=20, hidden_act="silu", layer_types=["linear_attention", "linear_attention", "full_attention"], linear_conv_kernel_dim=4,
        linear_key_head_dim=12, linear_value_head_dim=20, linear_num_key_heads=2, linear_num_value_heads=4, moe_intermediate_size=36,
        shared_expert_intermediate_size=28, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, hc_count=3, hc_lowrank=7,
        indexer_n_heads=16, indexer_kv_heads=1, indexer_head_dim=12, indexer_budget=27, indexer_compress_ratio=9, ple_layer_ids=[2],
        ple_embed_dim=44, ple_conv_kernel_size=3, ngram_size=3, heads_per_ngram=2, ngram_vocab_size_base=53, seed=77,
        make_ngram_vocab_size_divisible_by=48, split_ngram_parts=PARTS, output_gate_type="sigmoid", rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.4, mrope_section=[2, 1, 1], mrope_interleaved=True),
        attention_bias=False, attention_dropout=0.0, max_position_embeddings=256, rms_norm_eps=1e-6, initializer_range=0.02,
        tie_word_embeddings=False,
    ),
)
