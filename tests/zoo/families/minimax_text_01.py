"""MiniMax-Text-01: lightning attention with gated output, softmax attention, residuals scaled after the norm."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="MiniMaxConfig",
    model_class="MiniMaxForCausalLM",
    seed=17,
    renames={".mlp.experts": ".block_sparse_moe.experts", ".mlp.gate.": ".block_sparse_moe.gate."},
    expert=("w1", "w3", "w2"),
    without=r"(slope_rate|_decay)$",
    keys=dict(
        model_type="minimax", vocab_size=296, hidden_size=60, intermediate_size=36, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, hidden_act="silu", attention_dropout=0.0, num_local_experts=7, num_experts_per_tok=2,
        max_position_embeddings=256, rms_norm_eps=1e-5, initializer_range=0.02, tie_word_embeddings=False, router_aux_loss_coef=0.001,
        router_jitter_noise=0.0, output_router_logits=False, sliding_window=None, block_size=16, rope_theta=10000,
        layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
        full_attn_alpha_factor=1.4, full_attn_beta_factor=0.9, linear_attn_alpha_factor=1.5, linear_attn_beta_factor=0.8,
        mlp_alpha_factor=1.3, mlp_beta_factor=0.7),
)
