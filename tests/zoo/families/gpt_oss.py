"""gpt-oss: a window of nine tokens in every second layer, sinks, biases everywhere, clamped experts stored together, YaRN not rounded."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="GptOssConfig",
    model_class="GptOssForCausalLM",
    expert=None,
    seed=16,
    keys=dict(
        model_type="gpt_oss", vocab_size=299, hidden_size=60, intermediate_size=36, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, hidden_act="silu", attention_bias=True, attention_dropout=0.0, num_local_experts=7,
        num_experts_per_tok=3, experts_per_token=3, sliding_window=9, swiglu_limit=1.5, initial_context_length=32,
        layer_types=["sliding_attention", "full_attention"] * 2, max_position_embeddings=512, rms_norm_eps=1e-5, initializer_range=0.02,
        router_aux_loss_coef=0.9, output_router_logits=False, rope_theta=150000, rope_scaling=dict(
            beta_fast=32.0, beta_slow=1.0, factor=16.0, original_max_position_embeddings=32, rope_type="yarn", truncate=False),
        tie_word_embeddings=False,
    ),
)
