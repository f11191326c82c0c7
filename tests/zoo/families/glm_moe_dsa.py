"""GLM-5: an indexer with neighbouring rotary pairs, no YaRN, one group. The variant's layers share choices, as in GLM-5.2.

The prediction layer has neither embedding nor head of its own.
"""
from dataclasses import replace

from tests.zoo.families import deepseek_v3

KEYS = {key: value for key, value in deepseek_v3.FAMILY.keys.items() if key not in ("rope_theta", "rope_scaling")} | dict(
    model_type="glm_moe_dsa", vocab_size=294, hidden_size=56, q_lora_rank=44, qk_nope_head_dim=20, v_head_dim=28, n_group=1, topk_group=1,
    head_dim=12, qk_head_dim=32, index_n_heads=18, index_head_dim=26, index_topk=11, indexer_rope_interleave=True, rope_interleave=True,
    rms_norm_eps=1e-5, rope_parameters=dict(rope_theta=1000000, rope_type="default"))
FAMILY = replace(deepseek_v3.FAMILY, config_class="GlmMoeDsaConfig", model_class="GlmMoeDsaForCausalLM", seed=150, copies=False, keys=KEYS)
VARIANTS = {"shared": replace(FAMILY, seed=160, keys=KEYS | dict(
    num_hidden_layers=4, index_topk_freq=2, index_skip_topk_offset=1, index_topk_pattern=None, index_share_for_mtp_iteration=True,
    indexer_types=["full", "shared", "full", "shared"], mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
    moe_router_dtype="float32", rope_parameters=dict(rope_theta=8000000, rope_type="default")))}
