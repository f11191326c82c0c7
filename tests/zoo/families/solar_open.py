"""Solar Open: every layer has experts, whole heads turn."""
from tests.zoo.families import glm4_moe
from tests.zoo.family import Family

LEFT_OUT = ("intermediate_size", "first_k_dense_replace", "use_qk_norm", "partial_rotary_factor", "num_nextn_predict_layers")
FAMILY = Family(
    config_class="SolarOpenConfig",
    model_class="SolarOpenForCausalLM",
    seed=30,
    keys={key: value for key, value in glm4_moe.FAMILY.keys.items() if key not in LEFT_OUT} | dict(
        model_type="solar_open", vocab_size=301, hidden_size=52, n_shared_experts=1, n_group=1, topk_group=1, attention_bias=False,
        routed_scaling_factor=1.0, rope_theta=1000000.0),
)
