"""Qwen2.5: biases on the query, key and value projections, none on the output projection."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="Qwen2Config",
    model_class="Qwen2ForCausalLM",
    seed=16,
    keys=dict(
        model_type="qwen2", vocab_size=291, hidden_size=60, intermediate_size=104, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=3, hidden_act="silu", attention_dropout=0.0,
        max_position_embeddings=512, max_window_layers=3, rms_norm_eps=1e-6, initializer_range=0.02, rope_theta=1000000.0,
        sliding_window=512, use_sliding_window=False, tie_word_embeddings=False,
    ),
)
