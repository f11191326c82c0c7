"""dots.llm1: multi-head attention with norms per head, two shared experts. The variant's last layers see a window of nine tokens."""
from dataclasses import replace

from tests.zoo.family import Family

FAMILY = Family(
    config_class="Dots1Config",
    model_class="Dots1ForCausalLM",
    seed=33,
    keys=dict(
        model_type="dots1", vocab_size=293, hidden_size=56, intermediate_size=92, moe_intermediate_size=28, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, head_dim=16, hidden_act="silu", attention_bias=False, attention_dropout=0.0,
        n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3, n_group=1, topk_group=1, norm_topk_prob=True,
        routed_scaling_factor=2.5, scoring_func="noaux_tc", first_k_dense_replace=1, moe_layer_freq=1, max_position_embeddings=512,
        max_window_layers=4, sliding_window=None, rms_norm_eps=1e-5, initializer_range=0.02, rope_theta=10000000, rope_scaling=None,
        tie_word_embeddings=False,
    ),
)
VARIANTS = {"window": replace(FAMILY, seed=0, keys=FAMILY.keys | dict(max_window_layers=2, sliding_window=9, norm_topk_prob=False))}
