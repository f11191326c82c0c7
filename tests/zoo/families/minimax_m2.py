"""MiniMax-M2: norms over the whole query and key vectors, half of each head turns, sigmoid routing with a correction, w1/w3/w2."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="MiniMaxM2Config",
    model_class="MiniMaxM2ForCausalLM",
    renames={".mlp.": ".block_sparse_moe."},
    expert=("w1", "w3", "w2"),
    keys=dict(
        model_type="minimax_m2", vocab_size=291, hidden_size=60, intermediate_size=36, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, hidden_act="silu", attention_dropout=0.0, attn_type_list=[1, 1, 1], num_local_experts=9,
        num_experts_per_tok=3, max_position_embeddings=512, rms_norm_eps=1e-6, initializer_range=0.02, rope_theta=5000000, rotary_dim=6,
        qk_norm_type="per_layer", use_qk_norm=True, scoring_func="sigmoid", shared_intermediate_size=0, use_routing_bias=True,
        use_mtp=True, num_mtp_modules=3, mtp_transformer_layers=1, tie_word_embeddings=False,
    ),
)
