"""A.X-K1: DeepSeek-V3 with a norm after the experts. The variant is as released: that norm for dense layers too, no correction biases."""
from dataclasses import replace

from tests.zoo.families import deepseek_v3

KEYS = {key: value for key, value in deepseek_v3.FAMILY.keys.items() if key not in ("rope_scaling", "num_nextn_predict_layers")}
FAMILY = replace(
    deepseek_v3.FAMILY, config_class="AXK1Config", model_class="AXK1ForCausalLM", prediction=False, seed=0,
    renames={"mlp.post_mlp_layernorm": "post_mlp_layernorm"}, keys=KEYS | dict(model_type="axk1", hidden_size=52, n_routed_experts=10,
    n_group=5, topk_group=3, rope_interleave=True, head_dim=12, qk_head_dim=28))
VARIANTS = {"uncorrected": replace(
    FAMILY, seed=15, without="e_score_correction_bias", extra={"model.layers.0.post_mlp_layernorm.weight": (52,)})}
