"""Laguna: four or six query heads by layer, a window of nine in every second one, gates by softplus. A variant gates each element."""
from dataclasses import replace

from tests.zoo.family import Family

FAMILY = Family(
    config_class="LagunaConfig",
    model_class="LagunaForCausalLM",
    renames={"mlp.gate.e_score_correction_bias": "mlp.experts.e_score_correction_bias", ".shared_experts.": ".shared_expert."},
    seed=21,
    keys=dict(
        model_type="laguna", vocab_size=309, hidden_size=56, intermediate_size=92, moe_intermediate_size=28, num_hidden_layers=4,
        shared_expert_intermediate_size=36, num_attention_heads=4, num_attention_heads_per_layer=[4, 6, 4, 6], num_key_value_heads=2,
        head_dim=12, hidden_act="silu", attention_bias=False, attention_dropout=0.0, gating=True, num_experts=7, num_experts_per_tok=2,
        moe_routed_scaling_factor=1.7, moe_apply_router_weight_on_input=False, mlp_layer_types=["dense", "sparse", "dense", "sparse"],
        layer_types=["full_attention", "sliding_attention"] * 2, sliding_window=9, rope_parameters=dict(
            full_attention=dict(rope_type="yarn", rope_theta=500000.0, factor=4.0, original_max_position_embeddings=64,
                                partial_rotary_factor=0.5, beta_fast=32.0, beta_slow=1.0, attention_factor=1.0),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)),
        max_position_embeddings=512, rms_norm_eps=1e-6, initializer_range=0.02, router_aux_loss_coef=0.0, output_router_logits=False,
        tie_word_embeddings=False,
    ),
)
VARIANTS = {"element": replace(FAMILY, seed=22, keys=FAMILY.keys | dict(gating="per-element"))}
