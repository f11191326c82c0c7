"""Kimi-Linear (arXiv 2510.26692): three layers of delta attention to one of latent attention without positions; a mixture of experts."""

from collections.abc import Callable

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.rope import read_rope
from day0.families.deepseek_v3 import LATENT_NORM, network_kinds
from day0.families.deepseek_v3 import NAMES as DEEPSEEK
from day0.parts.dense_ffn import DenseFfn
from day0.parts.kda import Kda
from day0.parts.mla import Mla
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, PartSpec
from day0.spec.names import Names

UNUSED = ("head_dim", "num_key_value_heads", "rope_theta", "rope_scaling", "use_grouped_topk", "num_nextn_predict_layers", "topk_method")


def read(config: Config) -> Model:
    norm, act = rms_norm(config), activation(config.str("hidden_act", "silu"))
    layers = read_layers(config, norm, act, lambda i: PreNorm(norm=norm))
    return decoder(config, family="kimi_linear", layers=layers, norm=norm, context=context(config))


def read_layers(config: Config, norm: Norm, act: Activation, residual: Callable[[int], PartSpec]) -> list[Layer]:
    """Every layer; the configuration counts them from 1."""
    linear = config.sub("linear_attn_config")
    delta, full = linear.list("kda_layers"), linear.list("full_attn_layers")
    count = config.int("num_hidden_layers")
    if sorted(delta + full) != list(range(1, count + 1)):
        raise Day0Error(f"kda_layers and full_attn_layers do not name each of {count} layers once", linear.path, hint="counted from 1")
    mixers = {True: read_delta(linear, norm), False: read_attention(config)}
    dense, experts = DenseFfn(width=config.int("intermediate_size"), activation=act), read_experts(config, norm, act)
    kinds = network_kinds(config)
    config.book(UNUSED, "nothing: other keys say it, or there is no such thing")
    return [
        Layer(index=i, mixer=mixers[i + 1 in delta], ffn=experts if kinds[i] == "sparse" else dense, residual=residual(i))
        for i in range(count)
    ]


def read_delta(linear: Config, norm: Norm) -> Kda:
    dim = linear.int("head_dim")
    return Kda(
        heads=linear.int("num_heads"), head_dim=dim, taps=linear.int("short_conv_kernel_size"), decay_rank=dim,
        gate_rank=None if linear.bool("use_full_rank_gate", False) else dim, floor=linear.float("gate_lower_bound", None), norm=norm,
    )  # fmt: skip


def read_attention(config: Config) -> Mla:
    nope, rotary = config.int("qk_nope_head_dim"), config.int("qk_rope_head_dim")
    return Mla(
        heads=config.int("num_attention_heads"), q_lora_rank=config.int("q_lora_rank", None), kv_lora_rank=config.int("kv_lora_rank"),
        qk_nope_head_dim=nope, qk_rope_head_dim=rotary, v_head_dim=config.int("v_head_dim"), scale=(nope + rotary) ** -0.5,
        rope=None if config.bool("mla_use_nope", False) else read_rope(config, rotary, interleaved=True), norm=LATENT_NORM,
        bias=config.bool("attention_bias", False), gate=config.bool("mla_use_output_gate", False),
    )  # fmt: skip


def read_experts(config: Config, norm: Norm, act: Activation) -> MoeFfn:
    if (score := config.str("moe_router_activation_func", "sigmoid")) != "sigmoid":
        raise Day0Error(f"routing over {score!r} is not this family's", config.path, hint="key moe_router_activation_func")
    width = config.int("moe_intermediate_size")
    router = Router(
        score="sigmoid", bias=True, groups=config.int("num_expert_group", 1), top_groups=config.int("topk_group", 1),
        renormalise=config.bool("moe_renormalize", True), epsilon=1e-20, scale=config.float("routed_scaling_factor", 1.0),
    )  # fmt: skip
    return MoeFfn(
        experts=config.int("num_experts"), top_k=config.int(config.first("num_experts_per_token", "num_experts_per_tok")), width=width,
        activation=act, router=router, latent=config.int("routed_expert_hidden_size", None),
        latent_norm=norm if config.bool("latent_moe_use_norm", False) else None, shared_width=width * config.int("num_shared_experts", 0),
    )  # fmt: skip


def context(config: Config) -> str:
    """The key that says how many tokens the release was made for."""
    return config.first("model_max_length", "max_position_embeddings")


NAMES = Names(
    layer=DEEPSEEK.layer,
    tensors={
        **DEEPSEEK.tensors,
        "self_attn.q_proj": ("mixer.q", "mixer.q_b"),
        "self_attn.g_proj": ("mixer.g", "mixer.gate"),
        **{f"self_attn.{x}_proj": f"mixer.{x}" for x in ("k", "v", "f_a", "f_b", "g_a", "g_b")},
        "self_attn.b_proj": "mixer.beta",
        **{f"self_attn.{x}_conv1d": f"mixer.{x}_conv" for x in "qkv"},
        "self_attn.A_log": "mixer.rate_log",
        "self_attn.dt_bias": "mixer.decay_bias",
        "self_attn.o_norm": "mixer.o_norm",
        "block_sparse_moe.gate": "ffn.router",
        "block_sparse_moe.gate.e_score_correction_bias": "ffn.router_bias",
        "block_sparse_moe.experts.{e}.w1": "ffn.experts.gate",
        "block_sparse_moe.experts.{e}.w3": "ffn.experts.up",
        "block_sparse_moe.experts.{e}.w2": "ffn.experts.down",
        **{f"block_sparse_moe.shared_experts.{x}_proj": f"ffn.shared.{x}" for x in ("gate", "up", "down")},
        **{f"block_sparse_moe.{x}_proj": f"ffn.{x}" for x in ("gate", "up", "down")},
    },
    ends=DEEPSEEK.ends,
)

FAMILY = Family(recognises=frozenset({"kimi_linear"}), read=read, names=NAMES)
