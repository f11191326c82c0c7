"""dots.llm1: multi-head attention with per-head norms, leading dense layers, then DeepSeek-V3's experts (arXiv 2506.05767)."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, rms_norm
from day0.checkpoint.layers import layer_kinds
from day0.families.glm4_moe import NAMES, read_attention
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model


def read(config: Config) -> Model:
    norm = rms_norm(config)
    attention = read_attention(config, norm)
    act = activation(config.str("hidden_act", "silu"))
    dense, experts = DenseFfn(width=config.int("intermediate_size"), activation=act), read_experts(config, act)
    first = config.int("first_k_dense_replace", 0)
    layers = [
        Layer(index=i, mixer=mixer, ffn=dense if i < first else experts, residual=PreNorm(norm=norm))
        for i, mixer in enumerate(read_mixers(config, attention))
    ]
    return decoder(config, family="dots1", layers=layers, norm=norm)


def read_mixers(config: Config, full: Gqa) -> list[Gqa]:
    """A window in the layers that `layer_types` says, by default in those from `max_window_layers` on."""
    count, window = config.int("num_hidden_layers"), config.int("sliding_window", None)
    first = config.int("max_window_layers", count)
    mixers = {"full_attention": full, "sliding_attention": replace(full, window=window)}
    default = ["full_attention" if window is None or i < first else "sliding_attention" for i in range(count)]
    return [mixers[kind] for kind in layer_kinds(config, mixers, default)]


def read_experts(config: Config, act: Activation) -> MoeFfn:
    expect(config, scoring_func="noaux_tc", moe_layer_freq=1)
    width = config.int("moe_intermediate_size")
    router = Router(
        score="sigmoid", bias=True, groups=config.int("n_group", 1), top_groups=config.int("topk_group", 1), epsilon=1e-20,
        renormalise=config.bool("norm_topk_prob", False), scale=config.float("routed_scaling_factor", 1.0),
    )  # fmt: skip
    return MoeFfn(
        experts=config.int("n_routed_experts"), top_k=config.int("num_experts_per_tok"), width=width, activation=act, router=router,
        shared_width=width * config.int("n_shared_experts", 0),
    )  # fmt: skip


FAMILY = Family(recognises=frozenset({"dots1"}), read=read, names=NAMES)
