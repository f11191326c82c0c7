"""GLM-4.7-Flash: DeepSeek-V3's latent attention and experts, one dense layer, a prediction layer."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="Glm4MoeLiteConfig",
    model_class="Glm4MoeLiteForCausalLM",
    prediction=True,
    seed=0,
    keys=dict(
        model_type="glm4_moe_lite", vocab_size=297, hidden_size=60, intermediate_size=108, moe_intermediate_size=36, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, q_lora_rank=40, kv_lora_rank=28, qk_nope_head_dim=16, qk_rope_head_dim=12,
        v_head_dim=20, hidden_act="silu", attention_bias=False, attention_dropout=0.0, n_routed_experts=8, n_shared_experts=1,
        num_experts_per_tok=2, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.8, topk_method="noaux_tc",
        first_k_dense_replace=1, num_nextn_predict_layers=1, max_position_embeddings=256, rms_norm_eps=1e-5, initializer_range=0.02,
        partial_rotary_factor=1.0, rope_theta=1000000, rope_scaling=None, tie_word_embeddings=False),
)
