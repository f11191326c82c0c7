"""DeepSeek-V3.2: DeepSeek-V3 with an indexer in every layer, that picks 12 tokens for each query.

It has many heads, because with few of them many scores are exactly zero, and the choice among those is nobody's.
"""
from dataclasses import replace

from tests.zoo.families import deepseek_v3

FAMILY = replace(deepseek_v3.FAMILY, config_class="DeepseekV32Config", model_class="DeepseekV32ForCausalLM", seed=53, keys={
    **deepseek_v3.FAMILY.keys, "model_type": "deepseek_v32", "index_n_heads": 20, "index_head_dim": 28, "index_topk": 12})
