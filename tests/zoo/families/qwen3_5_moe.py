"""Qwen3.5: Qwen3-Next with separate projections and all experts of a layer in one tensor; a release in fp8 stores them one by one."""
from dataclasses import replace

from tests.zoo.families.qwen3_next import CENTRED, KEYS
from tests.zoo.family import GATED_EXPERT, Family

FAMILY = Family(
    config_class="Qwen3_5MoeTextConfig",
    model_class="Qwen3_5MoeForCausalLM",
    seed=17,
    centred=CENTRED,
    expert=None,
    keys=KEYS | dict(
        model_type="qwen3_5_moe_text", attn_output_gate=True, mamba_ssm_dtype="float32", full_attention_interval=2, num_hidden_layers=4,
        layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
        rope_parameters=dict(
            rope_type="default", rope_theta=10000, partial_rotary_factor=0.5, mrope_section=[2, 2, 2], mrope_interleaved=True)),
)
VARIANTS = {"each": replace(FAMILY, expert=GATED_EXPERT, seed=10)}
