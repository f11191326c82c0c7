"""OLMoE: RMS norms over the whole query and key vectors, softmax weights of the chosen experts not renormalised."""
from tests.zoo.family import Family

FAMILY = Family(
    config_class="OlmoeConfig",
    model_class="OlmoeForCausalLM",
    seed=127,
    keys=dict(
        model_type="olmoe", vocab_size=294, hidden_size=48, intermediate_size=40, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, hidden_act="silu", attention_bias=False, attention_dropout=0.0,
        clip_qkv=None, num_experts=7, num_experts_per_tok=2, norm_topk_prob=False, max_position_embeddings=512,
        rms_norm_eps=1e-3, initializer_range=0.02, rope_theta=10000.0, rope_scaling=None, output_router_logits=False,
        router_aux_loss_coef=0.01, tie_word_embeddings=False,
    ),
)
