"""Hunyuan Hy3: grouped-query attention with per-head norms, a leading dense layer, then sigmoid routing and a shared expert."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, predictions, rms_norm
from day0.checkpoint.layers import layer_kinds
from day0.checkpoint.rope import read_rope
from day0.families.glm4_moe import NAMES as GLM
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model
from day0.spec.names import Names

PRECISION = ("enable_moe_fp32_combine", "enable_lm_head_fp32", "enable_attention_fp32_softmax", "use_grouped_mm")


def read(config: Config) -> Model:
    norm = rms_norm(config, 1e-5)
    heads, dim = config.int("num_attention_heads"), config.int("head_dim", 128)
    bias = config.bool("attention_bias", False)
    attention = Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads", heads), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, theta=11_158_840.0), bias=bias, out_bias=bias, qk_norm=norm,
    )  # fmt: skip
    act = activation(config.str("hidden_act", "silu"))
    dense = DenseFfn(width=config.int("intermediate_size"), activation=act, bias=config.bool("mlp_bias", False))
    experts = read_experts(config, act)
    first = config.int("first_k_dense_replace", 1)
    default = ["dense" if i < first else "sparse" for i in range(config.int("num_hidden_layers"))]
    ffns = {"dense": dense, "sparse": experts}
    kinds = layer_kinds(config, ffns, default, "mlp_layer_types")
    layers = [Layer(index=i, mixer=attention, ffn=ffns[kind], residual=PreNorm(norm=norm)) for i, kind in enumerate(kinds)]
    return decoder(config, family="hy_v3", layers=layers, norm=norm, prediction=predictions(config, len(layers)))


def read_experts(config: Config, act: Activation) -> MoeFfn:
    expect(config, qk_norm=True, route_norm=True, moe_router_use_sigmoid=True, moe_router_enable_expert_bias=True)
    config.book(PRECISION, "nothing: the engine has its own precisions")
    config.book(("expert_hidden_dim", "eod_token_id", "sep_token_id"), "nothing: other keys say it")
    width = config.int("moe_intermediate_size")
    router = Router(score="sigmoid", bias=True, renormalise=True, epsilon=1e-20, scale=config.float("router_scaling_factor", 2.826))
    return MoeFfn(
        experts=config.int("num_experts"), top_k=config.int("num_experts_per_tok"), width=width, activation=act, router=router,
        shared_width=width * config.int("num_shared_experts", 1),
    )  # fmt: skip


NAMES = Names(
    layer=GLM.layer,
    tensors={
        **GLM.tensors,
        "mlp.router.gate": "ffn.router",
        "mlp.expert_bias": "ffn.router_bias",
        "mlp.e_score_correction_bias": "ffn.router_bias",
        "mlp.shared_mlp.gate_proj": "ffn.shared.gate",
        "mlp.shared_mlp.up_proj": "ffn.shared.up",
        "mlp.shared_mlp.down_proj": "ffn.shared.down",
    },
    ends=GLM.ends,
    ignored=GLM.ignored,
)

FAMILY = Family(recognises=frozenset({"hy_v3"}), read=read, names=NAMES)
