"""Mistral Small 4: latent attention whose queries grow with their position, softmax routing, fused experts."""
from tests.zoo.families import deepseek_v3
from tests.zoo.family import Family

LEFT_OUT = ("scoring_func", "topk_method", "moe_layer_freq", "ep_size", "num_nextn_predict_layers", "rope_theta", "rope_scaling")
KEYS = {key: value for key, value in deepseek_v3.FAMILY.keys.items() if key not in LEFT_OUT}
FAMILY = Family(
    config_class="Mistral4Config",
    model_class="Mistral4ForCausalLM",
    expert=None,
    seed=111,
    keys=KEYS | dict(
        model_type="mistral4", vocab_size=293, qk_nope_head_dim=12, v_head_dim=24, n_group=1, topk_group=1, n_routed_experts=9,
        first_k_dense_replace=1, num_experts_per_tok=2, routed_scaling_factor=1.0, rope_interleave=True, head_dim=24, qk_head_dim=24,
        rope_parameters=dict(
            type="yarn", rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=16,
            max_position_embeddings=256, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1,
            partial_rotary_factor=0.5)),
)
