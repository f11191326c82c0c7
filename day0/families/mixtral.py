"""Mixtral 8x7B and 8x22B: grouped-query attention and eight experts, two for each token (arXiv 2401.04088)."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.families.llama import NAMES as LLAMA
from day0.families.llama import read_attention
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model
from day0.spec.names import Names


def read(config: Config) -> Model:
    norm = rms_norm(config)
    attention = read_attention(config, norm)
    experts = MoeFfn(
        experts=config.int("num_local_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("intermediate_size"),
        activation=activation(config.str("hidden_act", "silu")), router=Router(score="softmax", renormalise=True),
    )  # fmt: skip
    config.book(("router_jitter_noise",), "nothing: it has no effect on the numbers")
    layers = [Layer(index=i, mixer=attention, ffn=experts, residual=PreNorm(norm=norm)) for i in range(config.int("num_hidden_layers"))]
    return decoder(config, family="mixtral", layers=layers, norm=norm)


NAMES = Names(
    layer=LLAMA.layer,
    tensors={
        **LLAMA.tensors,
        "block_sparse_moe.gate": "ffn.router",
        "block_sparse_moe.experts.{e}.w1": "ffn.experts.gate",
        "block_sparse_moe.experts.{e}.w3": "ffn.experts.up",
        "block_sparse_moe.experts.{e}.w2": "ffn.experts.down",
    },
    ends=LLAMA.ends,
    ignored=LLAMA.ignored,
)

FAMILY = Family(recognises=frozenset({"mixtral"}), read=read, names=NAMES)
