"""DeepSeek-V3 shapes without a query rank, without groups, without rope scaling and with two shared experts."""
from dataclasses import replace

from tests.zoo.families import deepseek_v3

FAMILY = replace(deepseek_v3.FAMILY, prediction=False, seed=87, keys=deepseek_v3.FAMILY.keys | dict(
    q_lora_rank=None, n_group=1, topk_group=1, n_shared_experts=2, n_routed_experts=9, routed_scaling_factor=1.8,
    num_nextn_predict_layers=0, rope_scaling=None, vocab_size=286, hidden_size=52))
