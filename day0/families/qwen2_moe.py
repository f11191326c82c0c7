"""Qwen1.5 and Qwen2 mixtures (A2.7B, 57B-A14B): biases of queries, keys and values, softmax routing, a shared expert behind a gate."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, rms_norm
from day0.checkpoint.layers import layer_kinds, positive
from day0.checkpoint.rope import read_rope
from day0.families.qwen3_next import NAMES
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model


def read(config: Config) -> Model:
    norm, act = rms_norm(config), activation(config.str("hidden_act", "silu"))
    attention, count = read_attention(config), config.int("num_hidden_layers")
    layer_kinds(config, ("full_attention",), ["full_attention"] * count)
    dense, experts = DenseFfn(width=config.int("intermediate_size"), activation=act), read_experts(config, act)
    step, dense_layers = positive(config, "decoder_sparse_step", 1), config.list("mlp_only_layers", [])
    layers = [
        Layer(index=i, mixer=attention, ffn=dense if i in dense_layers or (i + 1) % step else experts, residual=PreNorm(norm=norm))
        for i in range(count)
    ]
    return decoder(config, family="qwen2_moe", layers=layers, norm=norm)


def read_attention(config: Config) -> Gqa:
    expect(config, use_sliding_window=False)
    config.book(("sliding_window", "max_window_layers"), "nothing without a sliding window")
    heads = config.int("num_attention_heads")
    dim = config.int("head_dim", None) or config.int("hidden_size") // heads
    return Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads", heads), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim), bias=config.bool("qkv_bias", True),
    )  # fmt: skip


def read_experts(config: Config, act: Activation) -> MoeFfn:
    return MoeFfn(
        experts=config.int("num_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("moe_intermediate_size"),
        activation=act, router=Router(score="softmax", renormalise=config.bool("norm_topk_prob", False)),
        shared_width=config.int("shared_expert_intermediate_size"), shared_gate=True,
    )  # fmt: skip


FAMILY = Family(recognises=frozenset({"qwen2_moe"}), read=read, names=NAMES)
