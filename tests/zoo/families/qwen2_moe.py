"""Qwen2 sparse: biases of queries, keys and values, experts not normalised, a gated shared expert, one dense layer."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="Qwen2MoeConfig",
    model_class="Qwen2MoeForCausalLM",
    seed=0,
    keys=dict(
        model_type="qwen2_moe", vocab_size=299, hidden_size=56, intermediate_size=92, moe_intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", attention_dropout=0.0, num_experts=6, num_experts_per_tok=2,
        shared_expert_intermediate_size=44, norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[1], qkv_bias=True,
        use_sliding_window=False, sliding_window=None, max_window_layers=3, rope_theta=1000000.0, rope_scaling=None,
        max_position_embeddings=256, rms_norm_eps=1e-6, initializer_range=0.02, router_aux_loss_coef=0.001, output_router_logits=False,
        tie_word_embeddings=False),
)
