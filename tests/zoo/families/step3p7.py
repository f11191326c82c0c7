"""Step-3.7-Flash: full attention and windows with heads and ropes of their own, gated head by head, clamps by layer, banks of experts.

A nested configuration, and a vision tower that text does not pass.
"""
from tests.zoo.family import Family

WIDTH, INNER, TEXT = 16, 28, 60
BLOCK = "vision_model.transformer.resblocks.0."
TOWER = {
    "vision_model.conv1.weight": (WIDTH, 3, 7, 7), "vision_model.ln_pre.weight": (WIDTH,), "vision_model.ln_pre.bias": (WIDTH,),
    "vision_model.positional_embedding": (16, WIDTH), "vit_large_projector.weight": (TEXT, 4 * WIDTH),
    f"{BLOCK}attn.in_proj_weight": (3 * WIDTH, WIDTH), f"{BLOCK}attn.in_proj_bias": (3 * WIDTH,),
    f"{BLOCK}attn.out_proj.weight": (WIDTH, WIDTH), f"{BLOCK}attn.out_proj.bias": (WIDTH,), f"{BLOCK}mlp.c_fc.weight": (INNER, WIDTH),
    f"{BLOCK}mlp.c_fc.bias": (INNER,), f"{BLOCK}mlp.c_proj.weight": (WIDTH, INNER), f"{BLOCK}mlp.c_proj.bias": (WIDTH,),
} | {f"{BLOCK}{name}": (WIDTH,) for i in "12" for name in (f"ls_{i}.gamma", f"ln_{i}.weight", f"ln_{i}.bias")} | {
    f"vision_model.vit_downsampler{i + 1}.{kind}": shape for i, out in enumerate((2 * WIDTH, 4 * WIDTH))
    for kind, shape in {"weight": (out, out // 2, 3, 3), "bias": (out,)}.items()}
FAMILY = Family(
    config_class="Step3p7Config",
    model_class="Step3p7ForConditionalGeneration",
    seed=2,
    expert=None,
    bank="apart",
    centred=r"^model\..*norm\.weight$",
    without=r"vision_model|multi_modal_projector",
    extra=TOWER,
    renames={
        "model.language_model.": "model.", ".mlp.experts.": ".moe.", ".mlp.gate.e_score_correction_bias": ".moe.router_bias",
        ".mlp.gate.": ".moe.gate.", ".mlp.shared_experts.": ".share_expert.",
    },
    keys=dict(
        model_type="step3p7", image_token_id=400, projector_bias=False, tie_word_embeddings=False, vision_config=dict(
            width=WIDTH, layers=1, heads=2, image_size=28, patch_size=7, mlp_ratio=INNER / WIDTH, ls_init_value=0.1,
            max_position_embeddings=16),
        text_config=dict(
            vocab_size=293, hidden_size=TEXT, hidden_act="silu", max_position_embeddings=256, rms_norm_eps=1e-5, initializer_range=0.02,
            tie_word_embeddings=False, num_attention_heads=6, num_attention_groups=2, head_dim=12, num_hidden_layers=4,
            intermediate_size=108, moe_intermediate_size=36, moe_num_experts=9, moe_top_k=3, share_expert_dims=28, moe_layers_enum="1,2,3",
            moe_router_scaling_factor=3.0, sliding_window=11, attention_other_setting=dict(
                attention_type="sliding_attention", num_attention_heads=8, num_attention_groups=2, head_dim=12),
            layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            rope_theta=[5000000.0, 10000.0, 10000.0, 5000000.0], partial_rotary_factors=[0.5, 1.0, 1.0, 0.5],
            swiglu_limits=[None, 0.9, None, 1.1], swiglu_limits_shared=[None, None, 1.2, None], num_nextn_predict_layers=0)),
)
