"""DeepSeek-V3: latent attention with a query rank, YaRN, grouped sigmoid routing, a shared expert, a prediction layer.

The first layer is dense. `mscale` and `mscale_all_dim` differ, so that the factor on cosine and sine is not one. The
FP8 variants leave ragged blocks, as 576 rows do in the release.
"""
from dataclasses import replace

from tests.zoo.experts import Experts
from tests.zoo.family import Family, Packing

FAMILY = Family(
    config_class="DeepseekV3Config",
    model_class="DeepseekV3ForCausalLM",
    prediction=True,
    seed=26,
    keys=dict(
        model_type="deepseek_v3", vocab_size=296, hidden_size=60, intermediate_size=108, moe_intermediate_size=36,
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=40, kv_lora_rank=28,
        qk_nope_head_dim=16, qk_rope_head_dim=12, v_head_dim=20, hidden_act="silu", attention_bias=False,
        attention_dropout=0.0, n_routed_experts=12, n_shared_experts=1, num_experts_per_tok=3, n_group=4, topk_group=2,
        norm_topk_prob=True, routed_scaling_factor=2.5, scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1,
        ep_size=1, first_k_dense_replace=1, num_nextn_predict_layers=1, max_position_embeddings=256, rms_norm_eps=1e-6,
        initializer_range=0.02, tie_word_embeddings=False, rope_theta=10000,
        rope_scaling=dict(type="yarn", factor=8, original_max_position_embeddings=32, beta_fast=32, beta_slow=1,
                          mscale=1.0, mscale_all_dim=0.7),
    ),
)
WIDE = FAMILY.keys | dict(hidden_size=192, intermediate_size=288, moe_intermediate_size=160, q_lora_rank=144,
                          kv_lora_rank=136, qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=40, num_hidden_layers=2)
VARIANTS = {
    "fp8": replace(FAMILY, seed=4, keys=WIDE, packing=Packing((128, 128), "float32")),
    "mxfp4": replace(FAMILY, seed=2, keys=WIDE, packing=Experts("mxfp4-i8")),
    "nvfp4": replace(FAMILY, seed=1, keys=WIDE, packing=Experts("nvfp4-ct", 16)),
    "int4": replace(FAMILY, seed=1, keys=WIDE, packing=Experts("int4-zero")),
    "fp8-ue8m0": replace(FAMILY, seed=92, keys=WIDE, packing=Packing((32, 32), "float8_e8m0fnu", notes=dict(scale_fmt="ue8m0"))),
}
