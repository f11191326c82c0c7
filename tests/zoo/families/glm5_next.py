"""GLM-5.3-Flash: delta attention, an indexer over pooled keys, hyper-connections, beside a vision tower. Layer 2 reuses a choice."""
from tests.zoo.family import Family

PREFIX, WIDTH, TAPS = "model.language_model.layers", 3 * 12, 4
KINDS = ["linear_attention", "indexed_attention", "indexed_attention", "linear_attention"]
CONVOLUTIONS = {
    f"{PREFIX}.{i}.self_attn.{x}_conv1d.weight": (WIDTH, 1, TAPS) for i, kind in enumerate(KINDS) if kind == "linear_attention" for x in "qkv"
}
FAMILY = Family(
    config_class="Glm5NextConfig",
    model_class="Glm5NextForConditionalGeneration",
    seed=31,
    without=r"language_model.*conv1d",
    extra=CONVOLUTIONS,
    renames={".forget_gate.": ".", ".attn_hc.": ".hc_attn_", ".ffn_hc.": ".hc_ffn_"},
    keys=dict(
        model_type="glm5_next", image_token_id=290, video_token_id=291, image_start_token_id=292, image_end_token_id=293,
        video_start_token_id=288, video_end_token_id=289, tie_word_embeddings=False, vision_config=dict(
            depth=1, hidden_size=16, intermediate_size=32, num_heads=2, image_size=28, patch_size=4, out_hidden_size=60,
            projection_intermediate_size=28),
        text_config=dict(
            model_type="glm5_next_text", vocab_size=294, pad_token_id=285, hidden_size=60, intermediate_size=100, moe_intermediate_size=36,
            num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=40, kv_lora_rank=28, qk_nope_head_dim=16,
            qk_rope_head_dim=0, v_head_dim=20, n_routed_experts=10, n_shared_experts=1, num_experts_per_tok=3, n_group=1, topk_group=1,
            norm_topk_prob=True, routed_scaling_factor=2.5, hidden_act="silu", swiglu_limit=1.5, layer_types=KINDS,
            mlp_layer_types=["dense", "sparse", "sparse", "sparse"], indexer_types=["full", "full", "shared", "full"], index_topk=15,
            index_kpool=5, index_kpool_always_select_tail=True, index_n_heads=16, index_head_dim=24, linear_num_heads=3,
            linear_head_dim=12, linear_conv_kernel_dim=TAPS, linear_lower_bound=-5.0, hc_mult=3, hc_eps=1e-6, hc_sinkhorn_iters=7,
            attention_bias=False, attention_dropout=0.0, max_position_embeddings=256, rms_norm_eps=1e-5, initializer_range=0.02,
            tie_word_embeddings=False)),
)
