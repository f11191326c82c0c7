"""LongCat-Flash: two attentions and two dense networks a layer, experts that are added late, among them some that do nothing."""
from tests.zoo.families import deepseek_v3
from tests.zoo.family import Family

TAKEN = (
    "hidden_size", "num_attention_heads", "num_key_value_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
    "v_head_dim", "hidden_act", "attention_bias", "attention_dropout", "max_position_embeddings", "rms_norm_eps", "initializer_range",
    "tie_word_embeddings")
FAMILY = Family(
    config_class="LongcatFlashConfig",
    model_class="LongcatFlashForCausalLM",
    seed=24,
    keys={key: deepseek_v3.FAMILY.keys[key] for key in TAKEN} | dict(
        model_type="longcat_flash", vocab_size=291, num_layers=2, ffn_hidden_size=100, expert_ffn_hidden_size=36, n_routed_experts=7,
        moe_topk=3, zero_expert_num=4, zero_expert_type="identity", routed_scaling_factor=6.0, mla_scale_q_lora=True,
        mla_scale_kv_lora=True, attention_method="MLA", router_bias=False, rope_theta=10000000.0, head_dim=12),
)
