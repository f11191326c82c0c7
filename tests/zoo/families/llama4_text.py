"""Llama 4's decoder alone: chunks of eleven positions, every fourth layer without rotation but with a temperature, one expert a token."""
from dataclasses import replace

from tests.zoo.family import Family

FAMILY = Family(
    config_class="Llama4TextConfig",
    model_class="Llama4ForCausalLM",
    expert=None,
    seed=31,
    keys=dict(
        model_type="llama4_text", vocab_size=305, hidden_size=56, intermediate_size=36, intermediate_size_mlp=92, num_hidden_layers=4,
        num_attention_heads=6, num_key_value_heads=2, head_dim=12, hidden_act="silu", attention_bias=False, attention_dropout=0.0,
        num_local_experts=5, num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=11, use_qk_norm=True,
        attn_temperature_tuning=True, floor_scale=16, attn_scale=0.3, no_rope_layers=[], max_position_embeddings=512, rms_norm_eps=1e-5,
        initializer_range=0.02, rope_theta=500000.0, rope_scaling=None, router_aux_loss_coef=0.001, router_jitter_noise=0.0,
        output_router_logits=False, for_llm_compressor=False, tie_word_embeddings=False,
    ),
)
VARIANTS = {"plain": replace(FAMILY, seed=0, keys=FAMILY.keys | dict(
    use_qk_norm=False, attn_temperature_tuning=False, attention_chunk_size=40, interleave_moe_layer_step=1, num_experts_per_tok=2,
    no_rope_layers=[1, 0, 1, 1]))}
