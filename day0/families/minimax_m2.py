"""MiniMax-M2 to M2.7: grouped-query attention with norms over the whole query and key vectors, sigmoid routing, no shared expert."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, rms_norm
from day0.checkpoint.fused import fused_experts
from day0.checkpoint.rope import read_rope
from day0.families.mixtral import NAMES as MIXTRAL
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm
from day0.spec.names import Names


def read(config: Config) -> Model:
    norm = rms_norm(config)
    attention = read_attention(config, norm)
    expect(config, scoring_func="sigmoid", shared_intermediate_size=0, sliding_window=None)
    experts = MoeFfn(
        experts=config.int("num_local_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("intermediate_size"),
        activation=activation(config.str("hidden_act", "silu")),
        router=Router(score="sigmoid", bias=config.bool("use_routing_bias", True), renormalise=True),
    )  # fmt: skip
    config.book(("use_mtp", "num_mtp_modules", "mtp_transformer_layers"), "nothing: the release stores no prediction layer")
    config.book(("router_jitter_noise",), "nothing: it has no effect on the numbers")
    layers = [Layer(index=i, mixer=attention, ffn=experts, residual=PreNorm(norm=norm)) for i in range(config.int("num_hidden_layers"))]
    return decoder(config, family="minimax_m2", layers=layers, norm=norm)


def read_attention(config: Config, norm: Norm) -> Gqa:
    expect(config, use_qk_norm=True, qk_norm_type="per_layer")
    if any(kind != 1 for kind in config.list("attn_type_list", [])):
        raise Day0Error("a layer without softmax attention is not supported by this family", config.path, hint="key attn_type_list")
    dim = config.int("head_dim", 128)
    return Gqa(
        heads=config.int("num_attention_heads"), kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, theta=5e6, partial=config.int("rotary_dim", dim) / dim), qk_norm=norm, qk_norm_scope="vector",
    )  # fmt: skip


NAMES = Names(
    layer=MIXTRAL.layer,
    tensors={
        **MIXTRAL.tensors,
        "block_sparse_moe.e_score_correction_bias": "ffn.router_bias",
        "mlp.gate": "ffn.router",
        "mlp.e_score_correction_bias": "ffn.router_bias",
        **fused_experts("mlp.experts"),
    },
    ends=MIXTRAL.ends,
    ignored=MIXTRAL.ignored,
)

FAMILY = Family(recognises=frozenset({"minimax_m2"}), read=read, names=NAMES)
