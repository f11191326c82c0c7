"""ERNIE 4.5: neighbouring rotary pairs, softmax routing with a correction stored as [1, E], every second layer sparse, tied embeddings."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="Ernie4_5_MoeConfig",
    model_class="Ernie4_5_MoeForCausalLM",
    renames={"mlp.gate.moe_statics": "mlp.moe_statics"},
    keys=dict(
        model_type="ernie4_5_moe", vocab_size=297, hidden_size=60, intermediate_size=96, moe_intermediate_size=28, num_hidden_layers=4,
        num_attention_heads=6, num_key_value_heads=2, hidden_act="silu", use_bias=False, moe_num_experts=9, moe_k=3,
        moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=3, moe_layer_interval=2, moe_capacity=[64, 64, 64],
        moe_gate="topk", moe_use_aux_free=True, max_position_embeddings=512, rms_norm_eps=1e-5, initializer_range=0.02,
        rope_theta=500000.0, num_nextn_predict_layers=1, tie_word_embeddings=True,
    ),
)
