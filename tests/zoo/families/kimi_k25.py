"""Kimi K2.5: Kimi K2 under a prefix and a nested configuration, beside a vision tower that text does not pass.

The ids that stand for images lie beyond the vocabulary, so that no random prompt holds one.
"""
from tests.zoo.families import kimi_k2
from tests.zoo.family import Family

WIDTH, INNER, TEXT, PATCH, MERGED = 16, 28, 60, 14, 64
WEIGHTS = {
    "mm_projector.pre_norm": (WIDTH,), "mm_projector.proj.0": (MERGED, MERGED), "mm_projector.proj.2": (TEXT, MERGED),
    "vision_tower.encoder.final_layernorm": (WIDTH,), "vision_tower.patch_embed.proj": (WIDTH, 3, PATCH, PATCH),
} | {f"vision_tower.encoder.blocks.{i}.{name}": shape for i in range(2) for name, shape in {
    "norm0": (WIDTH,), "norm1": (WIDTH,), "wqkv": (3 * WIDTH, WIDTH), "wo": (WIDTH, WIDTH), "mlp.fc0": (INNER, WIDTH),
    "mlp.fc1": (WIDTH, INNER)}.items()}
TOWER = {f"{name}.weight": shape for name, shape in WEIGHTS.items()} | {f"{name}.bias": shape[:1] for name, shape in WEIGHTS.items()}
FAMILY = Family(
    config_class="Kimi_K25Config",
    model_class="Kimi_K25ForConditionalGeneration",
    seed=44,
    without=r"vision_tower|mm_projector",
    renames={"model.language_model.": "language_model.model.", "lm_head": "language_model.lm_head"},
    extra=TOWER | {"vision_tower.patch_embed.pos_emb.weight": (4, 4, WIDTH)},
    keys=dict(
        model_type="kimi_k25", text_config=kimi_k2.FAMILY.keys, ignore_index=-100, media_placeholder_token_id=400, image_token_id=400,
        video_token_id=401, vision_start_token_id=402, vision_end_token_id=403, tie_word_embeddings=False, projection_hidden_size=WIDTH,
        vision_config=dict(
            patch_size=PATCH, init_pos_emb_height=4, init_pos_emb_width=4, init_pos_emb_time=2, merge_kernel_size=[2, 2],
            merge_type="sd2_tpool", mm_projector_type="patchmerger", mm_hidden_size=WIDTH, text_hidden_size=TEXT,
            pos_emb_type="divided_fixed", projector_hidden_act="gelu", projector_ln_eps=1e-5, video_attn_type="spatial_temporal",
            vt_hidden_size=WIDTH, vt_intermediate_size=INNER, vt_num_attention_heads=2, vt_num_hidden_layers=2, hidden_size=WIDTH,
            intermediate_size=INNER, num_hidden_layers=2, num_attention_heads=2, pos_emb_height=4, pos_emb_width=4, pos_emb_time=2)),
)
