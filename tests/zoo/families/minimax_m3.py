"""MiniMax-M3: one dense layer, then block-sparse attention, under a prefix and a nested configuration, beside a vision tower."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="MiniMaxM3VLConfig",
    model_class="MiniMaxM3SparseForConditionalGeneration",
    seed=11,
    centred=r"^language_model.*norm\.weight$",
    expert=("w1", "w3", "w2"),
    renames={
        "model.vision_tower.embeddings.proj": "vision_tower.vision_model.embeddings.patch_embedding",
        "model.vision_tower.layers": "vision_tower.vision_model.encoder.layers",
        "model.vision_tower.pre_layrnorm": "vision_tower.vision_model.pre_layrnorm",
        "model.multi_modal_projector.merge_": "patch_merge_mlp.", "model.multi_modal_projector": "multi_modal_projector",
        "model.language_model.": "language_model.model.", "lm_head": "language_model.lm_head", ".mlp.experts": ".block_sparse_moe.experts",
        ".mlp.gate.e_score": ".block_sparse_moe.e_score", ".mlp.gate.": ".block_sparse_moe.gate.",
        ".mlp.shared_experts": ".block_sparse_moe.shared_experts", ".indexer.q_": ".index_q_", ".indexer.k_": ".index_k_",
    },
    keys=dict(
        model_type="minimax_m3_vl", image_token_index=290, video_token_index=291, projector_hidden_size=20, tie_word_embeddings=False,
        multimodal_projector_bias=True, vision_config=dict(
            hidden_size=16, intermediate_size=28, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14),
        text_config=dict(
            vocab_size=295, hidden_size=60, intermediate_size=36, dense_intermediate_size=100, shared_intermediate_size=44,
            num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=20, hidden_act="swigluoai", rope_theta=5000000,
            rotary_dim=8, partial_rotary_factor=0.4, num_local_experts=9, num_experts_per_tok=3, n_shared_experts=1,
            moe_layer_freq=[0, 1, 1], scoring_func="sigmoid", use_routing_bias=True, routed_scaling_factor=2.0, swiglu_alpha=1.702,
            swiglu_limit=1.5, use_qk_norm=True, qk_norm_type="per_head", use_gemma_norm=True, attention_output_gate=False,
            num_mtp_modules=1, max_position_embeddings=256, rms_norm_eps=1e-6, initializer_range=0.02, tie_word_embeddings=False,
            sparse_attention_config=dict(
                use_sparse_attention=True, sparse_attention_freq=[0, 1, 1], sparse_disable_index_value=[0, 1, 1],
                sparse_num_index_heads=2, sparse_index_dim=12, sparse_block_size=5, sparse_topk_blocks=3, sparse_local_block=1,
                sparse_init_block=0, sparse_score_type="max"))),
)
