"""Qwen3-Next: gated DeltaNet with grouped projections, three value heads a key head; gated attention that turns a quarter of a head."""
from tests.zoo.family import Family

CENTRED = r"(?<!linear_attn\.)norm\.weight$"
KEYS = dict(
    vocab_size=296, hidden_size=60, moe_intermediate_size=36, num_hidden_layers=5, num_attention_heads=6, num_key_value_heads=2,
    head_dim=24, hidden_act="silu", attention_bias=False, attention_dropout=0.0, linear_conv_kernel_dim=4, linear_key_head_dim=12,
    linear_value_head_dim=20, linear_num_key_heads=2, linear_num_value_heads=6, num_experts=8, num_experts_per_tok=2,
    shared_expert_intermediate_size=28, max_position_embeddings=256, rms_norm_eps=1e-6, initializer_range=0.02,
    tie_word_embeddings=False, router_aux_loss_coef=0.001, output_router_logits=False, mlp_only_layers=[],
)
FAMILY = Family(
    config_class="Qwen3NextConfig",
    model_class="Qwen3NextForCausalLM",
    seed=1,
    centred=CENTRED,
    keys=KEYS | dict(
        model_type="qwen3_next", full_attention_interval=3, decoder_sparse_step=1, intermediate_size=108, norm_topk_prob=True,
        mlp_only_layers=[1], partial_rotary_factor=0.25, rope_theta=10000, rope_scaling=None),
)
