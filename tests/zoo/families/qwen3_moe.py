"""Qwen3 sparse: softmax over all experts, top-k, renormalised; some layers are dense.

The FP8 variants follow Qwen3-FP8 (bfloat16 scales, list of modules left alone), a rectangular block with float32
scales, both of widths that leave ragged blocks, and one scale for each row or for a whole matrix.
"""
from dataclasses import replace

from tests.zoo.experts import Experts
from tests.zoo.family import Family, Packing

FAMILY = Family(
    config_class="Qwen3MoeConfig",
    model_class="Qwen3MoeForCausalLM",
    seed=460,
    keys=dict(
        model_type="qwen3_moe", vocab_size=292, hidden_size=60, intermediate_size=112, moe_intermediate_size=36,
        num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=16, hidden_act="silu",
        attention_bias=False, attention_dropout=0.0, num_experts=7, num_experts_per_tok=3, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[1], max_position_embeddings=512, max_window_layers=3, rms_norm_eps=1e-6,
        initializer_range=0.02, rope_theta=1000000.0, rope_scaling=None, sliding_window=None, use_sliding_window=False,
        output_router_logits=False, router_aux_loss_coef=0.001, tie_word_embeddings=False,
    ),
)
WIDE = FAMILY.keys | dict(hidden_size=192, intermediate_size=320, moe_intermediate_size=160, head_dim=40,
                          num_experts=8, decoder_sparse_step=2, mlp_only_layers=[])
VARIANTS = {
    "fp8": replace(FAMILY, seed=39, keys=WIDE, packing=Packing((128, 128), "bfloat16", listed=True)),
    "mxfp4": replace(FAMILY, seed=54, keys=WIDE, packing=Experts("mxfp4")),
    "mxfp8": replace(FAMILY, seed=22, keys=WIDE, packing=Experts("mxfp8")),
    "nvfp4": replace(FAMILY, seed=0, keys=WIDE, packing=Experts("nvfp4", 16)),
    "int4": replace(FAMILY, seed=1, keys=WIDE, packing=Experts("int4")),
    "awq": replace(FAMILY, seed=3, keys=WIDE, packing=Experts("awq")),
    "gptq": replace(FAMILY, seed=4, keys=WIDE, packing=Experts("gptq")),
    "fp8-channel": replace(FAMILY, seed=0, keys=WIDE, packing=Packing((1, None), "bfloat16")),
    "fp8-tensor": replace(FAMILY, seed=21, keys=WIDE, packing=Packing((None, None), "float32")),
    "fp8-64x128": replace(FAMILY, seed=18, keys=WIDE, packing=Packing((64, 128), "float32")),
}
