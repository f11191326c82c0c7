"""K-EXAONE: windows of nine tokens with rotation, every third layer full without, one dense layer, sigmoid routing in groups."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="ExaoneMoeConfig",
    model_class="ExaoneMoeForCausalLM",
    seed=7,
    renames={".mlp.gate.e_score": ".mlp.e_score"},
    keys=dict(
        model_type="exaone_moe", vocab_size=301, hidden_size=56, intermediate_size=92, moe_intermediate_size=28, num_hidden_layers=4,
        num_attention_heads=6, num_key_value_heads=2, head_dim=12, hidden_act="silu", attention_dropout=0.0, num_experts=8,
        num_experts_per_tok=2, num_shared_experts=2, norm_topk_prob=True, routed_scaling_factor=1.8, n_group=2, topk_group=1,
        first_k_dense_replace=1, sliding_window=9, sliding_window_pattern=3, max_position_embeddings=256,
        rms_norm_eps=1e-5, initializer_range=0.02, tie_word_embeddings=False, num_nextn_predict_layers=0,
        rope_parameters=dict(rope_type="default", rope_theta=1000000)),
)
