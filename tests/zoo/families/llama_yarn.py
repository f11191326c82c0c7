"""Llama with YaRN rope scaling over 32 original positions; cosine and sine carry the factor 0.1 ln(4) + 1."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="LlamaConfig",
    model_class="LlamaForCausalLM",
    seed=12,
    keys=dict(
        model_type="llama", vocab_size=288, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, head_dim=20, hidden_act="silu", attention_bias=False,
        attention_dropout=0.0, mlp_bias=False, max_position_embeddings=128, rms_norm_eps=1e-6, initializer_range=0.02,
        tie_word_embeddings=False, rope_theta=10000.0,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32),
    ),
)
