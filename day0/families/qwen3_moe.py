"""Qwen3 mixtures (30B-A3B, 235B-A22B, Coder-480B): grouped-query attention with per-head norms, softmax routing, no shared expert."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.fused import fused_experts
from day0.checkpoint.rope import read_rope
from day0.families.llama import NAMES as LLAMA
from day0.families.llama import refuse_window
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model
from day0.spec.names import Names


def read(config: Config, *, renormalise: bool = False) -> Model:
    """`renormalise` is the default of `norm_topk_prob`."""
    refuse_window(config)
    norm = rms_norm(config)
    heads, dim = config.int("num_attention_heads"), config.int("head_dim", 128)
    bias = config.bool("attention_bias", False)
    attention = Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim), bias=bias, out_bias=bias, qk_norm=norm,
    )  # fmt: skip
    act = activation(config.str("hidden_act", "silu"))
    dense = DenseFfn(width=config.int("intermediate_size"), activation=act)
    experts = MoeFfn(
        experts=config.int(config.first("num_experts", "num_local_experts")), top_k=config.int("num_experts_per_tok"),
        width=config.int("moe_intermediate_size"), activation=act,
        router=Router(score="softmax", renormalise=config.bool("norm_topk_prob", renormalise)),
    )  # fmt: skip
    step, dense_layers = config.int("decoder_sparse_step", 1), config.list("mlp_only_layers", [])
    layers = [
        Layer(
            index=i,
            mixer=attention,
            ffn=dense if i in dense_layers or (i + 1) % step else experts,
            residual=PreNorm(norm=norm),
        )
        for i in range(config.int("num_hidden_layers"))
    ]
    return decoder(config, family="qwen3_moe", layers=layers, norm=norm)


NAMES = Names(
    layer=LLAMA.layer,
    tensors={
        **LLAMA.tensors,
        "mlp.gate": "ffn.router",
        "mlp.experts.{e}.gate_proj": "ffn.experts.gate",
        "mlp.experts.{e}.up_proj": "ffn.experts.up",
        "mlp.experts.{e}.down_proj": "ffn.experts.down",
        **fused_experts("mlp.experts"),
    },
    ends=LLAMA.ends,
    ignored=LLAMA.ignored,
)

FAMILY = Family(recognises=frozenset({"qwen3_moe"}), read=read, names=NAMES)
