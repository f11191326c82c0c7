"""gpt-oss 20b and 120b: windows alternate with full attention, every head has a sink, every projection and expert a bias."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.fused import fused_experts
from day0.checkpoint.layers import layer_kinds
from day0.checkpoint.rope import read_rope
from day0.families.llama import NAMES as LLAMA
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model
from day0.spec.names import Cut, Names

KINDS = ("sliding_attention", "full_attention")


def read(config: Config) -> Model:
    norm = rms_norm(config, 1e-5)
    full = read_attention(config)
    mixers = {"full_attention": full, "sliding_attention": replace(full, window=config.int("sliding_window", 128))}
    experts = read_experts(config)
    kinds = layer_kinds(config, KINDS, [KINDS[i % 2] for i in range(config.int("num_hidden_layers"))])
    layers = [Layer(index=i, mixer=mixers[kind], ffn=experts, residual=PreNorm(norm=norm)) for i, kind in enumerate(kinds)]
    config.book(("initial_context_length", "experts_per_token"), "nothing: other keys say the same")
    return decoder(config, family="gpt_oss", layers=layers, norm=norm)


def read_attention(config: Config) -> Gqa:
    dim, bias = config.int("head_dim", 64), config.bool("attention_bias", True)
    return Gqa(
        heads=config.int("num_attention_heads"), kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, theta=150000.0), bias=bias, out_bias=bias, sinks=True,
    )  # fmt: skip


def read_experts(config: Config) -> MoeFfn:
    """The best logits are chosen, and softmax is over them alone; the gate is x · sigmoid(1.702 x), and one is added to up."""
    config.book(("hidden_act",), "nothing: the activation is the family's own")
    act = Activation(kind="silu", limit=config.float("swiglu_limit", 7.0), alpha=config.float("swiglu_alpha", 1.702), offset=1.0)
    return MoeFfn(
        experts=config.int("num_local_experts"), top_k=config.int(config.first("num_experts_per_tok", "experts_per_token")),
        width=config.int("intermediate_size"), activation=act, biases=True,
        router=Router(score="softmax", choice_first=True, linear_bias=True),
    )  # fmt: skip


NAMES = Names(
    layer=LLAMA.layer,
    tensors={
        **LLAMA.tensors,
        "self_attn.sinks": "mixer.sinks",
        "mlp.router": "ffn.router",
        "mlp.router.bias": "ffn.router_linear_bias",
        **fused_experts("mlp.experts", transpose=True, interleaved=True),
        **{f"{name}_blocks": cuts for name, cuts in fused_experts("mlp.experts", interleaved=True).items()},
        "mlp.experts.gate_up_proj_bias": (
            Cut(target="ffn.experts.gate_bias", axis=1, part=0, of=2, interleaved=True),
            Cut(target="ffn.experts.up_bias", axis=1, part=1, of=2, interleaved=True),
        ),
        "mlp.experts.down_proj_bias": "ffn.experts.down_bias",
    },
    ends=LLAMA.ends,
    ignored=LLAMA.ignored,
)

FAMILY = Family(recognises=frozenset({"gpt_oss"}), read=read, names=NAMES)
