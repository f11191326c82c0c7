"""GLM-4.5: half of each head turns, biases on q, k and v, two groups of experts, a prediction layer. One variant has no norm of queries."""
from dataclasses import replace

from tests.zoo.family import Family

FAMILY = Family(
    config_class="Glm4MoeConfig",
    model_class="Glm4MoeForCausalLM",
    prediction=True,
    seed=68,
    keys=dict(
        model_type="glm4_moe", vocab_size=295, hidden_size=60, intermediate_size=100, moe_intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=3, head_dim=12, hidden_act="silu", attention_bias=True, attention_dropout=0.0,
        n_routed_experts=10, n_shared_experts=2, num_experts_per_tok=3, n_group=2, topk_group=1, norm_topk_prob=True,
        routed_scaling_factor=2.5, first_k_dense_replace=1, use_qk_norm=True, partial_rotary_factor=0.5, max_position_embeddings=512,
        rms_norm_eps=1e-5, initializer_range=0.02, rope_theta=1000000, rope_scaling=None, num_nextn_predict_layers=1,
        tie_word_embeddings=False,
    ),
)
VARIANTS = {"air": replace(FAMILY, seed=34, keys=FAMILY.keys | dict(
    use_qk_norm=False, routed_scaling_factor=1.0, n_group=1, n_shared_experts=1, first_k_dense_replace=2))}
