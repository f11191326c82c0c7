"""Qwen3: RMS norms of each query and key head, heads wider than hidden / heads."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="Qwen3Config",
    model_class="Qwen3ForCausalLM",
    seed=15,
    keys=dict(
        model_type="qwen3", vocab_size=289, hidden_size=68, intermediate_size=92, num_hidden_layers=3, head_dim=24,
        num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", attention_bias=False, attention_dropout=0.0,
        max_position_embeddings=512, max_window_layers=3, rms_norm_eps=1e-3, initializer_range=0.02, rope_theta=1000000,
        rope_scaling=None, sliding_window=None, use_sliding_window=False, tie_word_embeddings=False,
    ),
)
