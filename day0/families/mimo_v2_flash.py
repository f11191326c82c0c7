"""MiMo-V2-Flash: full attention and windows with sinks, each with its own heads and rope; values narrower than keys; routed experts."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect
from day0.checkpoint.layers import layer_kinds
from day0.checkpoint.rope import read_rope, stretch_of
from day0.families.deepseek_v3 import read_experts
from day0.families.glm4_moe import NAMES as GLM
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, Prediction
from day0.spec.names import Names

SAID_TWICE = ("attention_chunk_size", "layer_types", "mlp_layer_types", "rms_norm_eps", "rope_theta", "partial_rotary_factor")
KINDS = ("full_attention", "sliding_attention")


def read(config: Config) -> Model:
    norm = Norm(eps=config.float(config.first("layernorm_epsilon", "rms_norm_eps"), 1e-5))
    act = activation(config.str("hidden_act", "silu"))
    ffns = {"dense": DenseFfn(width=config.int("intermediate_size"), activation=act), "sparse": read_experts(config, act)}
    mixers = {"full_attention": read_full(config), "sliding_attention": read_window(config)}
    count = config.int("num_hidden_layers")
    every_sixth = [KINDS[i > 0 and i % 6 != 5] for i in range(count)]
    mixing = flagged(config, "hybrid_layer_pattern", KINDS, "layer_types", every_sixth)
    feeding = flagged(config, "moe_layer_freq", tuple(ffns), "mlp_layer_types", ["dense"] + ["sparse"] * (count - 1))
    layers = [
        Layer(index=i, mixer=mixers[mixer], ffn=ffns[ffn], residual=PreNorm(norm=norm))
        for i, (mixer, ffn) in enumerate(zip(mixing, feeding, strict=True))
    ]
    config.book(SAID_TWICE, "nothing: other keys say it")
    prediction = Prediction(count=3, prefixes=tuple(f"model.mtp.layers.{i}." for i in range(3)))
    return decoder(config, family="mimo_v2_flash", layers=layers, norm=norm, prediction=prediction)


def flagged(config: Config, flags: str, kinds: tuple[str, ...], words: str, default: list[str]) -> list[str]:
    """The kind of each layer, from the release's list of zeros and ones (`flags`) or transformers' list of words."""
    if flags not in config:
        return layer_kinds(config, kinds, default, words)
    values, count = config.list(flags), config.int("num_hidden_layers")
    if len(values) < count or not set(map(str, values)) <= {"0", "1"}:
        raise Day0Error(f"{flags} must have a 0 or 1 for each of {count} layers", config.path)
    return [kinds[value] for value in values[:count]]


def read_full(config: Config) -> Gqa:
    expect(config, add_full_attention_sink_bias=False)
    qk_dim, v_dim = config.int("head_dim", 192), config.int("v_head_dim", 128)
    return Gqa(
        heads=config.int("num_attention_heads"), kv_heads=config.int("num_key_value_heads"), qk_dim=qk_dim, v_dim=v_dim,
        scale=qk_dim**-0.5, rope=read_rope(config, qk_dim, theta=5e6, partial=0.334, stretch=stretch_of(config, "full_attention")),
        bias=config.bool("attention_bias", False), value_scale=config.float("attention_value_scale", None) or 1.0,
    )  # fmt: skip


def read_window(config: Config) -> Gqa:
    """The release counts the tokens before the query's own, `sliding_window_size`; transformers all of them, `sliding_window`."""
    full = read_full(config)
    before, seen = config.int("sliding_window_size", None), config.int("sliding_window", 129)
    qk_dim = config.int("swa_head_dim", full.qk_dim)
    rope = read_rope(config, qk_dim, theta=10000.0, partial=0.334, stretch=stretch_of(config, "sliding_attention"))
    if "swa_rope_theta" in config:
        rope = replace(rope, theta=config.float("swa_rope_theta"))
    return replace(
        full, heads=config.int("swa_num_attention_heads", full.heads), kv_heads=config.int("swa_num_key_value_heads", 2 * full.kv_heads),
        qk_dim=qk_dim, v_dim=config.int("swa_v_head_dim", full.v_dim), scale=qk_dim**-0.5, rope=rope,
        window=seen if before is None else before + 1, sinks=config.bool("add_swa_attention_sink_bias", True),
    )  # fmt: skip


NAMES = Names(
    layer=GLM.layer,
    tensors={**GLM.tensors, "self_attn.attention_sink_bias": "mixer.sinks", "self_attn.sinks": "mixer.sinks"},
    ends=GLM.ends,
    ignored=GLM.ignored,
)

FAMILY = Family(recognises=frozenset({"mimo_v2_flash"}), read=read, names=NAMES)
