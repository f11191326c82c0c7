"""K-EXAONE: windows with rotation, every fourth layer full and without, norms of each head, one dense layer, then DeepSeek-V3's experts."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, predictions, rms_norm
from day0.checkpoint.layers import layer_kinds, positive
from day0.checkpoint.rope import read_rope
from day0.families.glm4_moe import NAMES as GLM
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm
from day0.spec.names import Names


def read(config: Config) -> Model:
    norm, act = rms_norm(config, 1e-5), activation(config.str("hidden_act", "silu"))
    networks = {"dense": DenseFfn(width=config.int("intermediate_size"), activation=act), "sparse": read_experts(config, act)}
    mixers = read_mixers(config, norm)
    first = config.int("first_k_dense_replace", 1)
    kinds = layer_kinds(config, networks, ["dense" if i < first else "sparse" for i in range(len(mixers))], "mlp_layer_types")
    residual = PreNorm(norm=norm)
    layers = [Layer(index=i, mixer=mixer, ffn=networks[kinds[i]], residual=residual) for i, mixer in enumerate(mixers)]
    return decoder(config, family="exaone_moe", layers=layers, norm=norm, prediction=predictions(config, len(layers)))


def read_mixers(config: Config, norm: Norm) -> list[Gqa]:
    """That of every layer. Full layers turn nothing where others have a window."""
    count, heads, window = config.int("num_hidden_layers"), config.int("num_attention_heads"), config.int("sliding_window", None)
    dim = config.int("head_dim", None) or config.int("hidden_size") // heads
    turned = Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads", heads), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim), qk_norm=norm,
    )  # fmt: skip
    if window is None:
        config.book(("layer_types", "sliding_window_pattern"), "nothing: no layer has a window")
        return [turned] * count
    mixers = {"full_attention": replace(turned, rope=None), "sliding_attention": replace(turned, window=window)}
    if "layer_types" in config:
        config.book(("sliding_window_pattern",), "nothing: layer_types says it")
        return [mixers[kind] for kind in layer_kinds(config, mixers, ())]
    every = positive(config, "sliding_window_pattern", 4)
    return [mixers["sliding_attention" if (i + 1) % every else "full_attention"] for i in range(count)]


def read_experts(config: Config, act: Activation) -> MoeFfn:
    width = config.int("moe_intermediate_size")
    router = Router(
        score="sigmoid", bias=True, groups=config.int("n_group", 1), top_groups=config.int("topk_group", 1), epsilon=1e-20,
        renormalise=config.bool("norm_topk_prob", True), scale=config.float("routed_scaling_factor", 2.5),
    )  # fmt: skip
    return MoeFfn(
        experts=config.int("num_experts"), top_k=config.int("num_experts_per_tok"), width=width, activation=act, router=router,
        shared_width=width * config.int("num_shared_experts", 1),
    )  # fmt: skip


NAMES = Names(
    layer=GLM.layer,
    tensors={**GLM.tensors, "mlp.e_score_correction_bias": "ffn.router_bias"},
    ends=GLM.ends,
    ignored=GLM.ignored,
)

FAMILY = Family(recognises=frozenset({"exaone_moe"}), read=read, names=NAMES)
