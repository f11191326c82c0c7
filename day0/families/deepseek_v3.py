"""DeepSeek-V3, V3.1, R1 and Kimi K2: latent attention, leading dense layers, then shared and routed experts (arXiv 2412.19437)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, per_layer, rms_norm
from day0.checkpoint.rope import read_rope, softmax_mscale
from day0.families.qwen3_moe import NAMES as QWEN
from day0.parts.dense_ffn import DenseFfn
from day0.parts.mla import Mla
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, PartSpec, Prediction
from day0.spec.names import Names

NETWORKS = ("dense", "sparse")
LATENT_NORM = Norm(eps=1e-6)  # the release's code gives the latents this epsilon, whatever rms_norm_eps says


def read(config: Config) -> Model:
    return build(config, "deepseek_v3", lambda attention: attention)


def build(config: Config, family: str, mixer: Callable[[Mla], PartSpec]) -> Model:
    """The decoder, with what `mixer` makes of the latent attention in every layer."""
    norm, mixing = rms_norm(config), mixer(read_attention(config))
    layers = [Layer(index=i, mixer=mixing, ffn=ffn, residual=PreNorm(norm=norm)) for i, ffn in enumerate(read_ffns(config))]
    return decoder(config, family=family, layers=layers, norm=norm, prediction=read_prediction(config))


def with_experts(model: Model, change: Callable[[MoeFfn], MoeFfn]) -> Model:
    """The model with other experts."""
    layers = (replace(layer, ffn=change(layer.ffn)) if isinstance(layer.ffn, MoeFfn) else layer for layer in model.layers)
    return replace(model, layers=tuple(layers))


def read_ffns(config: Config) -> list[PartSpec]:
    """The network of each layer."""
    act = activation(config.str("hidden_act", "silu"))
    dense, experts = DenseFfn(width=config.int("intermediate_size"), activation=act), read_experts(config, act)
    return [experts if kind == "sparse" else dense for kind in network_kinds(config)]


def network_kinds(config: Config) -> Sequence[str]:
    """"dense" or "sparse" for each layer: `mlp_layer_types` or the flags of `moe_layer_freq` list them, prediction layers last; without a
    list the first ones are dense, and then every `moe_layer_freq`th is sparse."""
    first, step = config.int("first_k_dense_replace", 0), config.any("moe_layer_freq", 1)
    kinds = config.list("mlp_layer_types", None)
    if kinds is None and isinstance(step, list):
        return per_layer(config, "moe_layer_freq", [NETWORKS[int(flag)] if flag in (0, 1) else repr(flag) for flag in step], NETWORKS)
    if kinds is None:
        every = config.int("moe_layer_freq", 1)
        kinds = ["sparse" if i >= first and i % every == 0 else "dense" for i in range(config.int("num_hidden_layers"))]
    return per_layer(config, "mlp_layer_types", kinds, NETWORKS)


def read_prediction(config: Config) -> Prediction | None:
    """Prediction layers are stored behind the stack, under the next numbers."""
    count, extra = config.int("num_hidden_layers"), config.int("num_nextn_predict_layers", 0)
    return Prediction(count=extra, prefixes=tuple(f"model.layers.{count + i}." for i in range(extra))) if extra else None


def read_attention(config: Config, *, theta: float = 10000.0) -> Mla:
    nope, rotary = config.int("qk_nope_head_dim"), config.int("qk_rope_head_dim")
    whole = "partial_rotary_factor" in config.sub("rope_parameters")  # a share of the whole head
    config.book(("num_key_value_heads", "head_dim", "qk_head_dim"), "nothing: the latent ranks say it")
    return Mla(
        heads=config.int("num_attention_heads"),
        q_lora_rank=config.int("q_lora_rank", None),
        kv_lora_rank=config.int("kv_lora_rank"),
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rotary,
        v_head_dim=config.int("v_head_dim"),
        scale=(nope + rotary) ** -0.5 * softmax_mscale(config),
        rope=read_rope(config, nope + rotary if whole else rotary, theta=theta, interleaved=config.bool("rope_interleave", True)),
        norm=LATENT_NORM,
        bias=config.bool("attention_bias", False),
    )


def read_experts(config: Config, act: Activation) -> MoeFfn:
    score, method = config.str("scoring_func", "sigmoid"), config.str("topk_method", "noaux_tc")
    if (score, method) != ("sigmoid", "noaux_tc"):
        raise Day0Error(f"routing {method!r} over {score!r} is not this family's", config.path, hint="keys topk_method, scoring_func")
    width = config.int("moe_intermediate_size")
    router = Router(
        score="sigmoid", bias=True, groups=config.int("n_group", 1), top_groups=config.int("topk_group", 1),
        renormalise=config.bool("norm_topk_prob", True), epsilon=1e-20, scale=config.float("routed_scaling_factor", 1.0),
    )  # fmt: skip
    return MoeFfn(
        experts=config.int("n_routed_experts"), top_k=config.int("num_experts_per_tok"), width=width, activation=act,
        router=router, shared_width=width * config.int("n_shared_experts", 0),
    )  # fmt: skip


NAMES = Names(
    layer=QWEN.layer,
    tensors={
        **{name: target for name, target in QWEN.tensors.items() if not name.startswith("self_attn.")},
        "self_attn.q_proj": "mixer.q_b",
        "self_attn.q_a_proj": "mixer.q_a",
        "self_attn.q_a_proj.bias": "mixer.q_a_bias",
        "self_attn.q_a_layernorm": "mixer.q_a_norm",
        "self_attn.q_b_proj": "mixer.q_b",
        "self_attn.kv_a_proj_with_mqa": "mixer.kv_a",
        "self_attn.kv_a_proj_with_mqa.bias": "mixer.kv_a_bias",
        "self_attn.kv_a_layernorm": "mixer.kv_a_norm",
        "self_attn.kv_b_proj": "mixer.kv_b",
        "self_attn.o_proj": "mixer.o",
        "self_attn.o_proj.bias": "mixer.o_bias",
        "mlp.gate.e_score_correction_bias": "ffn.router_bias",
        "mlp.shared_experts.gate_proj": "ffn.shared.gate",
        "mlp.shared_experts.up_proj": "ffn.shared.up",
        "mlp.shared_experts.down_proj": "ffn.shared.down",
    },
    ends=QWEN.ends,
    ignored=QWEN.ignored,
)

FAMILY = Family(recognises=frozenset({"deepseek_v3", "kimi_k2"}), read=read, names=NAMES)
