"""Step-3.5-Flash and the text of Step-3.7-Flash: full attention and windows with their own heads and ropes, gated head by head."""

from dataclasses import replace
from typing import Any

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, predictions
from day0.checkpoint.layers import layer_kinds
from day0.checkpoint.nested import read_text
from day0.checkpoint.rope import read_rope, stretch_of
from day0.families.glm4_moe import NAMES as GLM
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, Tower
from day0.spec.names import Names
from day0.spec.rope import Rope
from day0.towers import step3p7 as tower

KINDS = ("full_attention", "sliding_attention")
FIXED = dict(
    zero_centered=True, use_head_wise_attn_gate=True, use_moe_router_bias=True, moe_router_activation="sigmoid", norm_expert_weight=True,
    use_qk_norm=True, sink=False, attention_bias=False, mlp_bias=False, att_impl_type="GQA", use_rope_layers=[],
    yarn_only_types=["full_attention"],
)  # fmt: skip
SAID_ELSEWHERE = (
    "use_moe", "moe_layer_offset", "moe_every_n_layer", "need_fp32_gate", "norm_dtype", "fp32_residual_connection", "max_seq_len",
    "hidden_act", "per_layer_config", "mtp_layer_types", "mtp_mlp_layer_types", "num_mtp_layers",
)  # fmt: skip


def read(config: Config) -> Model:
    model = read_text(config, read_language, Tower(name="vision", prefixes=tower.PREFIXES))
    encoder = tower.read(config, model.hidden)
    return replace(model, towers=(replace(model.towers[0], encoder=encoder),), read_keys=config.read_keys, unread_keys=config.unread())


def read_language(text: Config) -> Model:
    expect(text, **FIXED)
    text.book(SAID_ELSEWHERE, "nothing: other keys say it, or the family does")
    norm = Norm(eps=text.float("rms_norm_eps", 1e-5), plus_one=True)
    count = text.int("num_hidden_layers")
    kinds, sparse = layer_kinds(text, KINDS, ["full_attention"] * count), sparse_layers(text)
    layers = [
        Layer(index=i, mixer=read_attention(text, norm, i, kind), ffn=read_ffn(text, i, i in sparse), residual=PreNorm(norm=norm))
        for i, kind in enumerate(kinds)
    ]
    return decoder(text, family="step3p7", layers=layers, norm=norm, prediction=predictions(text, count))


def read_attention(config: Config, norm: Norm, index: int, kind: str) -> Gqa:
    heads, dim = config.int("num_attention_heads"), config.int("head_dim", 128)
    groups = config.int(config.first("num_attention_groups", "num_key_value_heads"))
    scale = config.float("query_pre_attn_scalar", float(dim)) ** -0.5
    full = Gqa(
        heads=heads, kv_heads=groups, qk_dim=dim, v_dim=dim, scale=scale, rope=rope_of(config, dim, index, kind), qk_norm=norm, gate="head"
    )
    other = config.sub("attention_other_setting")
    expect(other, attention_type="sliding_attention", num_attention_groups=groups, head_dim=dim)
    heads = config.int("num_sliding_attention_heads", None) or other.int("num_attention_heads", heads)
    return full if kind == "full_attention" else replace(full, heads=heads, window=config.int("sliding_window"))


def rope_of(config: Config, dim: int, index: int, kind: str) -> Rope:
    """Base and turning share are one number for all layers or one for each; only full attention is stretched."""
    by_kind = stretch_of(config, kind)
    if by_kind is not None:
        return read_rope(config, dim, stretch=by_kind)
    theta, shares = config.any("rope_theta", 10000.0), config.list("partial_rotary_factors", [])
    said: dict[str, Any] = {
        "rope_theta": item(config, "rope_theta", theta, index) if isinstance(theta, list) else theta,
        "partial_rotary_factor": item(config, "partial_rotary_factors", shares, index) if shares else 1.0,
        "rope_scaling": config.sub("rope_scaling").data if kind == "full_attention" else None,
        "max_position_embeddings": config.int("max_position_embeddings"),
    }
    config.book(("rope_scaling",), "checkpoint.rope")
    return read_rope(Config(said, config.path), dim)


def read_ffn(config: Config, index: int, sparse: bool) -> DenseFfn | MoeFfn:
    """The clamps of dense layers are those of shared experts; a zero is none."""
    shared, routed = (clamped(config, key, index) for key in ("swiglu_limits_shared", "swiglu_limits"))
    dense = DenseFfn(width=config.int("intermediate_size"), activation=shared)
    router = Router(score="sigmoid", bias=True, renormalise=True, scale=config.float("moe_router_scaling_factor", 1.0))
    experts = MoeFfn(
        experts=config.int(config.first("moe_num_experts", "n_routed_experts", "num_local_experts")),
        top_k=config.int(config.first("moe_top_k", "num_experts_per_tok")), width=config.int("moe_intermediate_size"), activation=routed,
        router=router, shared_width=config.int(config.first("share_expert_dims", "share_expert_dim")), shared_activation=shared,
    )  # fmt: skip
    return experts if sparse else dense


def clamped(config: Config, key: str, index: int) -> Activation:
    limits = config.list(key, [])
    return Activation(kind="silu", limit=(item(config, key, limits, index) if limits else None) or None, limit_after=True)


def item(config: Config, key: str, values: list[Any], index: int) -> Any:
    """The number (or null) that a list has for a layer."""
    value = values[index] if index < len(values) else "nothing"
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise Day0Error(f"{key} has {str(value)[:60]} for layer {index}", config.path, hint="a number is expected")
    return value


def sparse_layers(config: Config) -> set[int]:
    """Layers with experts: named by `mlp_layer_types`, or numbered by `moe_layers_enum`, a list or text; by default from the fourth on."""
    count = config.int("num_hidden_layers")
    numbers = config.any("moe_layers_enum", list(range(3, count)))
    numbers = numbers.split(",") if isinstance(numbers, str) else numbers
    if not isinstance(numbers, list) or not all(str(number).strip().isdecimal() for number in numbers):
        raise Day0Error(f"moe_layers_enum {str(numbers)[:60]!r} does not number layers", config.path)
    chosen = {int(number) for number in numbers}
    default = ["sparse" if i in chosen else "dense" for i in range(count)]
    return {i for i, kind in enumerate(layer_kinds(config, ("dense", "sparse"), default, "mlp_layer_types")) if kind == "sparse"}


NAMES = Names(
    layer=GLM.layer,
    tensors={
        **GLM.tensors,
        "self_attn.g_proj": "mixer.gate",
        "moe.gate": "ffn.router",
        "moe.router_bias": "ffn.router_bias",
        **{f"moe.{name}_proj": f"ffn.experts.{name}" for name in ("gate", "up", "down")},
        **{f"share_expert.{name}_proj": f"ffn.shared.{name}" for name in ("gate", "up", "down")},
    },
    ends=GLM.ends,
    ignored=GLM.ignored,
)

FAMILY = Family(recognises=frozenset({"step3p7", "step3p5"}), read=read, names=NAMES, towers={"vision": tower.NAMES})
