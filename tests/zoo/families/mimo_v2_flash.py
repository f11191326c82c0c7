"""MiMo-V2-Flash: windows with twice the key heads, sinks and their own rope beside full attention; narrow values that are scaled."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="MiMoV2FlashConfig",
    model_class="MiMoV2FlashForCausalLM",
    renames={"self_attn.sinks": "self_attn.attention_sink_bias"},
    seed=14,
    keys=dict(
        model_type="mimo_v2_flash", vocab_size=303, hidden_size=56, intermediate_size=88, moe_intermediate_size=28, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=1, head_dim=18, v_head_dim=10, swa_num_attention_heads=4, swa_num_key_value_heads=2,
        swa_head_dim=18, swa_v_head_dim=10, sliding_window=10, sliding_window_size=10, attention_chunk_size=10,
        hybrid_layer_pattern=[0, 1, 1, 1, 1, 0], moe_layer_freq=[0, 1, 1, 1, 1, 1], attention_value_scale=0.707,
        add_swa_attention_sink_bias=True, add_full_attention_sink_bias=False, hidden_act="silu", attention_bias=False,
        attention_dropout=0.0, n_routed_experts=6, n_shared_experts=None, num_experts_per_tok=2, n_group=1, topk_group=1,
        topk_method="noaux_tc", scoring_func="sigmoid", norm_topk_prob=True, routed_scaling_factor=None, layernorm_epsilon=1e-5,
        max_position_embeddings=512, initializer_range=0.02, rope_theta=5000000, swa_rope_theta=10000, partial_rotary_factor=0.334,
        tie_word_embeddings=False,
    ),
)
