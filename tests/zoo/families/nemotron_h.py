"""Nemotron-H: Mamba-2, attention, squared-relu networks, and mixtures that work in a latent, one in each layer."""

from dataclasses import replace

from tests.zoo.family import Family

KEYS = dict(
    model_type="nemotron_h", vocab_size=296, hidden_size=60, num_attention_heads=6, num_key_value_heads=2, head_dim=12,
    attention_bias=False, attention_dropout=0.0, hybrid_override_pattern="MEM*-EM", num_hidden_layers=7, intermediate_size=84,
    moe_intermediate_size=36,
    moe_latent_size=28, moe_shared_expert_intermediate_size=44, moe_shared_expert_overlap=False, n_routed_experts=12, n_shared_experts=1,
    num_experts_per_tok=3, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5, ssm_state_size=20, mamba_num_heads=6,
    mamba_head_dim=12, n_groups=2, conv_kernel=4, expand=2, chunk_size=16, mamba_hidden_act="silu", mamba_proj_bias=False,
    mamba_ssm_cache_dtype="float32", use_conv_bias=True, use_bias=False, mlp_bias=False, mlp_hidden_act="relu2", layer_norm_epsilon=1e-5,
    norm_eps=1e-5, rescale_prenorm_residual=True, residual_in_fp32=False, rope_theta=10000, partial_rotary_factor=1.0, sliding_window=None,
    time_step_floor=1e-4, time_step_min=0.001, time_step_max=0.1, time_step_limit=[0.0, 1e308], num_logits_to_keep=1,
    num_nextn_predict_layers=0, max_position_embeddings=256, initializer_range=0.02, tie_word_embeddings=False,
)
RELEASED = {"model.": "backbone."}
FAMILY = Family(config_class="NemotronHConfig", model_class="NemotronHForCausalLM", seed=0, renames=RELEASED, keys=KEYS)
VARIANTS = {"wide": replace(FAMILY, keys=KEYS | dict(moe_latent_size=None), seed=5)}
