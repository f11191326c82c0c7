"""Llama 3.1: grouped queries and the "llama3" rope scaling, with two of six frequencies in its blended middle band."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="LlamaConfig",
    model_class="LlamaForCausalLM",
    seed=16,
    keys=dict(
        model_type="llama", vocab_size=293, hidden_size=72, intermediate_size=100, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, hidden_act="silu", attention_bias=False, attention_dropout=0.0,
        mlp_bias=False, max_position_embeddings=512, rms_norm_eps=1e-3, initializer_range=0.02, pretraining_tp=1,
        tie_word_embeddings=False, rope_theta=1000.0,
        rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64,
                          rope_type="llama3"),
    ),
)
