"""OLMoE (arXiv 2409.02060): multi-head attention with norms over the whole query and key vectors, 64 experts, weights not renormalised."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.families.llama import read_attention
from day0.families.qwen3_moe import NAMES
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model


def read(config: Config) -> Model:
    norm = rms_norm(config)
    attention = replace(read_attention(config, norm), qk_norm=norm, qk_norm_scope="vector", clip=config.float("clip_qkv", None))
    experts = MoeFfn(
        experts=config.int("num_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("intermediate_size"),
        activation=activation(config.str("hidden_act", "silu")),
        router=Router(score="softmax", renormalise=config.bool("norm_topk_prob", False)),
    )  # fmt: skip
    layers = [Layer(index=i, mixer=attention, ffn=experts, residual=PreNorm(norm=norm)) for i in range(config.int("num_hidden_layers"))]
    return decoder(config, family="olmoe", layers=layers, norm=norm)


FAMILY = Family(recognises=frozenset({"olmoe"}), read=read, names=NAMES)
