"""Arcee's Trinity: windows of nine tokens with rotation, every third layer full without, gates, four norms a layer, scaled embeddings."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="AfmoeConfig",
    model_class="AfmoeForCausalLM",
    keys=dict(
        model_type="afmoe", vocab_size=307, hidden_size=56, intermediate_size=92, moe_intermediate_size=28, num_hidden_layers=4,
        num_dense_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=12, hidden_act="silu", attention_bias=False,
        attention_dropout=0.0, num_experts=7, num_experts_per_tok=2, num_shared_experts=2, route_scale=1.8, score_func="sigmoid",
        route_norm=True, n_group=1, topk_group=1, global_attn_every_n_layers=3, sliding_window=9, mup_enabled=True, rope_theta=10000.0,
        rope_scaling=None, max_position_embeddings=512, rms_norm_eps=1e-5, initializer_range=0.02, load_balance_coeff=0.001,
        use_grouped_mm=True, tie_word_embeddings=False,
    ),
)
