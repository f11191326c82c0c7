"""Small Llama: no stored output head, heads wider than hidden / heads, hidden size 60, biases on every projection."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="LlamaConfig",
    model_class="LlamaForCausalLM",
    seed=7,
    keys=dict(
        model_type="llama", vocab_size=290, hidden_size=60, intermediate_size=90, num_hidden_layers=4,
        num_attention_heads=5, num_key_value_heads=1, head_dim=16, hidden_act="silu", attention_bias=True,
        attention_dropout=0.0, mlp_bias=True, max_position_embeddings=512, rms_norm_eps=1e-5, initializer_range=0.02,
        tie_word_embeddings=True, rope_theta=10000.0, rope_scaling=None,
    ),
)
