"""Arcee's Trinity: gated attention in windows with rotation, every fourth layer full and without; a norm around each sublayer."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, rms_norm
from day0.checkpoint.layers import layer_kinds, positive
from day0.checkpoint.rope import read_rope
from day0.families.glm4_moe import NAMES as GLM
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.sandwich_norm import SandwichNorm
from day0.spec.activation import Activation, activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model
from day0.spec.names import Names

KINDS = ("full_attention", "sliding_attention")


def read(config: Config) -> Model:
    norm = rms_norm(config, 1e-5)
    heads = config.int("num_attention_heads")
    dim = config.int("head_dim", 128)
    bias = config.bool("attention_bias", False)
    full = Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads", heads), qk_dim=dim, v_dim=dim, scale=dim**-0.5, rope=None, bias=bias,
        out_bias=bias, qk_norm=norm, gate="element",
    )  # fmt: skip
    mixers = dict(zip(KINDS, (full, replace(full, rope=read_rope(config, dim), window=config.int("sliding_window", 1024))), strict=True))
    act = activation(config.str("hidden_act", "silu"))
    dense, experts = DenseFfn(width=config.int("intermediate_size"), activation=act), read_experts(config, act)
    every, first = positive(config, "global_attn_every_n_layers", 4), config.int("num_dense_layers", 1)
    kinds = layer_kinds(config, KINDS, [KINDS[(i + 1) % every != 0] for i in range(config.int("num_hidden_layers"))])
    layers = [
        Layer(index=i, mixer=mixers[kind], ffn=dense if i < first else experts, residual=SandwichNorm(norm=norm))
        for i, kind in enumerate(kinds)
    ]
    model = decoder(config, family="afmoe", layers=layers, norm=norm)
    scaled = config.bool("mup_enabled", False)
    return replace(model, embed_scale=model.hidden**0.5 if scaled else 1.0, unread_keys=config.unread())


def read_experts(config: Config, act: Activation) -> MoeFfn:
    expect(config, score_func="sigmoid", route_norm=True, n_group=1, topk_group=1)
    config.book(("load_balance_coeff", "use_grouped_mm"), "nothing: it has no effect on the numbers")
    width = config.int("moe_intermediate_size")
    return MoeFfn(
        experts=config.int("num_experts"), top_k=config.int("num_experts_per_tok"), width=width, activation=act,
        router=Router(score="sigmoid", bias=True, renormalise=True, epsilon=1e-20, scale=config.float("route_scale", 1.0)),
        shared_width=width * config.int("num_shared_experts", 2),
    )  # fmt: skip


NAMES = Names(
    layer=GLM.layer,
    tensors={
        **GLM.tensors,
        "self_attn.gate_proj": "mixer.gate",
        "mlp.router.gate": "ffn.router",
        "mlp.expert_bias": "ffn.router_bias",
        "post_attention_layernorm": "residual.mixer_post_norm",
        "pre_mlp_layernorm": "residual.ffn_norm",
        "post_mlp_layernorm": "residual.ffn_post_norm",
    },
    ends=GLM.ends,
    ignored=GLM.ignored,
)

FAMILY = Family(recognises=frozenset({"afmoe"}), read=read, names=NAMES)
