"""Poolside's Laguna: query heads by layer, windows beside full attention with their own ropes, gates by softplus, sigmoid routing."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, rms_norm
from day0.checkpoint.layers import layer_kinds
from day0.checkpoint.rope import read_rope, stretch_of
from day0.families.glm4_moe import NAMES as GLM
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm
from day0.spec.names import Names

KINDS = {"full_attention": (500000.0, 0.5), "sliding_attention": (10000.0, 1.0)}  # base of the rope, share of a head that turns


def read(config: Config) -> Model:
    norm = rms_norm(config)
    act = activation(config.str("hidden_act", "silu"))
    ffns = {"dense": DenseFfn(width=config.int("intermediate_size"), activation=act), "sparse": read_experts(config, act)}
    count = config.int("num_hidden_layers")
    mixers = {kind: read_attention(config, norm, kind) for kind in KINDS}
    kinds = layer_kinds(config, KINDS, ["full_attention"] * count)
    feeding = layer_kinds(config, ffns, ["dense"] + ["sparse"] * (count - 1), "mlp_layer_types")
    heads = config.list("num_attention_heads_per_layer", [config.int("num_attention_heads")] * count)
    if len(heads) < count or not all(isinstance(number, int) and number > 0 for number in heads):
        raise Day0Error(f"num_attention_heads_per_layer must have a whole number for each of {count} layers", config.path)
    layers = [
        Layer(index=i, mixer=replace(mixers[kinds[i]], heads=heads[i]), ffn=ffns[feeding[i]], residual=PreNorm(norm=norm))
        for i in range(count)
    ]
    return decoder(config, family="laguna", layers=layers, norm=norm)


def read_attention(config: Config, norm: Norm, kind: str) -> Gqa:
    dim, bias = config.int("head_dim", 128), config.bool("attention_bias", False)
    gating = config.any("gating", True)
    if gating not in (True, "per-head", "per-element"):
        raise Day0Error(f"gating {str(gating)[:60]!r} is not known", config.path, hint="per-head or per-element")
    theta, share = KINDS[kind]
    window = config.int("sliding_window", 512)
    return Gqa(
        heads=config.int("num_attention_heads"), kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, theta=theta, partial=share, stretch=stretch_of(config, kind)), bias=bias, out_bias=bias, qk_norm=norm,
        window=window if kind == "sliding_attention" else None, gate="element" if gating == "per-element" else "head",
        gate_function="softplus",
    )  # fmt: skip


def read_experts(config: Config, act: Activation) -> MoeFfn:
    expect(config, moe_apply_router_weight_on_input=False, moe_router_logit_softcapping=0.0)
    return MoeFfn(
        experts=config.int("num_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("moe_intermediate_size"),
        activation=act, shared_width=config.int("shared_expert_intermediate_size", 0),
        router=Router(score="sigmoid", bias=True, renormalise=True, scale=config.float("moe_routed_scaling_factor", 1.0)),
    )  # fmt: skip


NAMES = Names(
    layer=GLM.layer,
    tensors={
        **GLM.tensors,
        "self_attn.g_proj": "mixer.gate",
        "mlp.experts.e_score_correction_bias": "ffn.router_bias",
        **{f"mlp.shared_expert.{name}_proj": f"ffn.shared.{name}" for name in ("gate", "up", "down")},
    },
    ends=GLM.ends,
    ignored=GLM.ignored,
)

FAMILY = Family(recognises=frozenset({"laguna"}), read=read, names=NAMES)
