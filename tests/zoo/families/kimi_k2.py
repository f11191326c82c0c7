"""Kimi K2: the DeepSeek-V3 architecture under its own model type, one group, more experts, a narrow YaRN ramp."""
from dataclasses import replace

from tests.zoo.families import deepseek_v3

FAMILY = replace(deepseek_v3.FAMILY, prediction=False, seed=140, keys=deepseek_v3.FAMILY.keys | dict(
    model_type="kimi_k2", n_group=1, topk_group=1, n_routed_experts=16, num_experts_per_tok=4,
    routed_scaling_factor=2.827, num_nextn_predict_layers=0, num_attention_heads=2, num_key_value_heads=2, vocab_size=299,
    max_position_embeddings=1024, rope_theta=50000.0, seq_aux=True, aux_loss_alpha=0.001, rope_scaling=dict(
        beta_fast=1.0, beta_slow=1.0, factor=32.0, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=32,
        type="yarn")))
