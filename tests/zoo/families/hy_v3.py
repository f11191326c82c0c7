"""Hy3: norms per head, sigmoid routing with a correction called `expert_bias`, a shared expert `shared_mlp`, a prediction layer."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="HYV3Config",
    model_class="HYV3ForCausalLM",
    renames={"mlp.gate.weight": "mlp.router.gate.weight", "mlp.e_score_correction_bias": "mlp.expert_bias",
             ".shared_experts.": ".shared_mlp."},
    prediction=True,
    seed=44,
    keys=dict(
        model_type="hy_v3", vocab_size=298, hidden_size=60, intermediate_size=104, moe_intermediate_size=28, expert_hidden_dim=28,
        num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=12, hidden_act="silu", num_experts=9,
        num_experts_per_tok=3, num_shared_experts=1, router_scaling_factor=2.826, first_k_dense_replace=1, qk_norm=True, route_norm=True,
        moe_router_use_sigmoid=True, moe_router_enable_expert_bias=True, enable_moe_fp32_combine=False, enable_lm_head_fp32=True,
        enable_attention_fp32_softmax=False, use_grouped_mm=False, max_position_embeddings=512, rms_norm_eps=1e-5,
        initializer_range=0.006, rope_parameters=dict(rope_theta=11158840.0, rope_type="default"), num_nextn_predict_layers=1,
        tie_word_embeddings=False,
    ),
)
