"""Qwen3-VL sparse: Qwen3's decoder under a nested configuration, its experts in turned banks, beside a vision tower that text does not pass."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="Qwen3VLMoeConfig",
    model_class="Qwen3VLMoeForConditionalGeneration",
    seed=19,
    expert=None,
    bank="turned",
    keys=dict(
        model_type="qwen3_vl_moe", image_token_id=400, video_token_id=401, vision_start_token_id=402, vision_end_token_id=403,
        tie_word_embeddings=False, vision_config=dict(
            model_type="qwen3_vl_moe", depth=3, hidden_size=16, intermediate_size=28, num_heads=2, in_channels=3, patch_size=4,
            out_hidden_size=60, num_position_embeddings=16, spatial_merge_size=2, temporal_patch_size=2, deepstack_visual_indexes=[0, 1],
            hidden_act="gelu_pytorch_tanh", initializer_range=0.02),
        text_config=dict(
            model_type="qwen3_vl_moe_text", vocab_size=294, hidden_size=60, intermediate_size=112, moe_intermediate_size=36,
            num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, head_dim=16, hidden_act="silu", attention_bias=False,
            attention_dropout=0.0, num_experts=7, num_experts_per_tok=3, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[2],
            max_position_embeddings=256, rms_norm_eps=1e-6, initializer_range=0.02, rope_theta=5000000, tie_word_embeddings=False,
            rope_scaling=dict(rope_type="default", mrope_section=[4, 2, 2], mrope_interleaved=True))),
)
