"""MiniMax-Text-01 and M1 (arXiv 2501.08313): seven layers of lightning attention to one of softmax attention, scaled residuals.

The original release (`minimax_text_01`, `minimax_m1`) and its copy for transformers (`minimax`) differ in configuration keys alone."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder
from day0.checkpoint.rope import read_rope
from day0.families.llama import refuse_window
from day0.families.mixtral import NAMES as MIXTRAL
from day0.parts.gqa import Gqa
from day0.parts.lightning import Lightning, slopes
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.norm_residual import NormResidual
from day0.spec.activation import Activation, activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm
from day0.spec.names import Names

OUTPUT_NORM = Norm(eps=1e-6)  # the release's code gives lightning attention this epsilon, whatever rms_norm_eps says
KINDS = {0: "linear_attention", 1: "full_attention"}  # of attn_type_list


def read(config: Config) -> Model:
    refuse_window(config)
    norm, act = Norm(eps=config.float("rms_norm_eps", 1e-5)), config.str("hidden_act", "silu")
    heads, count = config.int("num_attention_heads"), config.int("num_hidden_layers")
    dim = config.int("head_dim", None) or config.int("hidden_size") // heads
    full, experts = read_attention(config, heads, dim), read_experts(config, activation(act))
    mlp, factors = read_factors(config, "mlp"), {kind: read_factors(config, kind) for kind in ("linear", "full")}
    config.book(("block_size",), "nothing: how many tokens one step of a kernel takes")
    layers = []
    for i, kind in enumerate(read_kinds(config, count)):
        rates = slopes(heads, i, count)
        linear = Lightning(heads=heads, head_dim=dim, slopes=rates, activation=activation(act, gated=False), norm=OUTPUT_NORM)
        residual = NormResidual(norm=norm, mixer=factors[kind.removesuffix("_attention")], ffn=mlp)
        layers.append(Layer(index=i, mixer=linear if kind == KINDS[0] else full, ffn=experts, residual=residual))
    return decoder(config, family="minimax_text_01", layers=layers, norm=norm)


def read_kinds(config: Config, count: int) -> list[str]:
    """Attention of every layer, in either spelling."""
    kinds = config.list("layer_types", None) or [KINDS.get(flag, "") for flag in config.list("attn_type_list")]
    if len(kinds) != count or not set(kinds) <= set(KINDS.values()):
        raise Day0Error(f"{count} layers should be lightning (0) or softmax (1)", config.path, hint="keys layer_types, attn_type_list")
    return kinds


def read_attention(config: Config, heads: int, dim: int) -> Gqa:
    config.book(("attention_bias",), "nothing: this family has none")
    rope = read_rope(config, dim, theta=1e6, partial=config.int("rotary_dim", dim) / dim)
    return Gqa(heads=heads, kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5, rope=rope)


def read_experts(config: Config, act: Activation) -> MoeFfn:
    if config.int("shared_intermediate_size", 0):
        raise Day0Error("a shared expert is not this family's", config.path, hint="key shared_intermediate_size")
    config.book(("router_jitter_noise", "shared_moe_mode"), "nothing: it has no effect on the numbers")
    return MoeFfn(
        experts=config.int("num_local_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("intermediate_size"),
        activation=act, router=Router(score="softmax", renormalise=True),
    )  # fmt: skip


def read_factors(config: Config, kind: str) -> tuple[float, float]:
    """Of the normed stream and of the sublayer's result: keys of the original release, or of its copy for transformers."""
    if not config.bool("postnorm", True):
        raise Day0Error("residuals that are taken before the norm are not this family's", config.path, hint="key postnorm")
    old, new = (f"layernorm_{kind}{'' if kind == 'mlp' else '_attention'}_", f"{kind}{'' if kind == 'mlp' else '_attn'}_")
    alpha, beta = (config.float(config.first(f"{old}{name}", f"{new}{name}_factor"), 1.0) for name in ("alpha", "beta"))
    return alpha, beta


NAMES = Names(
    layer=MIXTRAL.layer,
    tensors={
        **MIXTRAL.tensors,
        "self_attn.qkv_proj": "mixer.qkv",
        "self_attn.output_gate": "mixer.gate",
        "self_attn.norm": "mixer.o_norm",
        "self_attn.out_proj": "mixer.o",
    },
    ends=MIXTRAL.ends,
    ignored=(*MIXTRAL.ignored, r"self_attn\.(slope_rate|query_decay|key_decay|diagonal_decay)$"),
)

FAMILY = Family(recognises=frozenset({"minimax_text_01", "minimax_m1", "minimax"}), read=read, names=NAMES)
