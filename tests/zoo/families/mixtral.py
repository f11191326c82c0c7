"""Mixtral: experts named w1 (gate), w3 (up), w2 (down) below `block_sparse_moe`, top-2 renormalised."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="MixtralConfig",
    model_class="MixtralForCausalLM",
    renames={".mlp.": ".block_sparse_moe."},
    expert=("w1", "w3", "w2"),
    seed=46,
    keys=dict(
        model_type="mixtral", vocab_size=287, hidden_size=56, intermediate_size=44, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", attention_dropout=0.0, num_local_experts=6,
        num_experts_per_tok=2, max_position_embeddings=512, rms_norm_eps=1e-3, initializer_range=0.02,
        rope_theta=1000000.0, sliding_window=None, output_router_logits=False, router_aux_loss_coef=0.02,
        tie_word_embeddings=False,
    ),
)
