"""Kimi-Linear: delta attention with one decay a channel, latent attention without positions, an irregular end, routing in groups."""
from tests.zoo.family import Family
from tests.zoo.tokenizer import IDS

HEADS, DIM, DELTA = 3, 20, (1, 2, 4)

FAMILY = Family(
    config_class="KimiLinearConfig",
    model_class="KimiLinearForCausalLM",
    seed=57,
    renames={".forget_gate.": ".", ".mlp.experts": ".block_sparse_moe.experts", ".mlp.gate.": ".block_sparse_moe.gate.",
             ".mlp.shared_experts": ".block_sparse_moe.shared_experts"},
    expert=("w1", "w3", "w2"),
    without=r"\.conv1d\.",
    extra={f"model.layers.{i - 1}.self_attn.{x}_conv1d.weight": (HEADS * DIM, 1, 3) for i in DELTA for x in "qkv"},
    keys=dict(
        model_type="kimi_linear", vocab_size=296, hidden_size=60, intermediate_size=108, moe_intermediate_size=36, num_hidden_layers=5,
        num_attention_heads=4, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=28, qk_nope_head_dim=16, qk_rope_head_dim=12,
        v_head_dim=20, hidden_act="silu", num_experts=12, num_experts_per_token=3, num_shared_experts=2, num_expert_group=3, topk_group=2,
        use_grouped_topk=True, moe_renormalize=True, moe_router_activation_func="sigmoid", moe_layer_freq=1, routed_scaling_factor=2.446,
        first_k_dense_replace=1, mla_use_nope=True, rms_norm_eps=1e-5, model_max_length=256, tie_word_embeddings=False,
        pad_token_id=IDS["pad"], initializer_range=0.02, rope_theta=10000.0, rope_scaling=None, num_nextn_predict_layers=0,
        linear_attn_config=dict(kda_layers=list(DELTA), full_attn_layers=[3, 5], num_heads=HEADS, head_dim=DIM, short_conv_kernel_size=3),
    ),
)
