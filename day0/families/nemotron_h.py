"""Nemotron-H and Nemotron 3 (arXiv 2504.03624): a layer is one sublayer: Mamba-2, attention without positions, a network or a mixture."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.mamba2 import Mamba2
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, Prediction
from day0.spec.names import Names

LETTERS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
SPELLINGS = {"linear_attention": "mamba", "full_attention": "attention"}  # of transformers 5
UNUSED = (
    "expand", "chunk_size", "hidden_dropout", "mamba_proj_bias", "mamba_ssm_cache_dtype", "moe_shared_expert_overlap",
    "num_logits_to_keep", "residual_in_fp32", "rescale_prenorm_residual", "sliding_window", "time_step_floor", "time_step_max", "time_step_rank",
    "use_mamba_kernels", "partial_rotary_factor", "rope_theta", "mtp_hybrid_override_pattern", "mtp_layers_block_type",
)  # fmt: skip


def read(config: Config) -> Model:
    norm = Norm(eps=config.float(config.first("layer_norm_epsilon", "norm_eps", "rms_norm_eps"), 1e-5))
    config.book(("layer_norm_epsilon", "norm_eps", "rms_norm_eps"), "nothing: one spelling of it is enough")
    kinds = read_kinds(config)
    readers = {"mamba": read_mamba, "attention": read_attention, "moe": read_experts, "mlp": read_network}
    unknown = sorted(set(kinds) - readers.keys())
    if unknown:
        raise Day0Error(f"layers of kind {unknown[0]!r} are not known", config.path, hint=f"known: {', '.join(readers)}")
    sublayers = {kind: readers[kind](config, norm) for kind in dict.fromkeys(kinds)}
    layers = [
        Layer(
            index=i,
            mixer=sublayers[kind] if kind in ("mamba", "attention") else None,
            ffn=sublayers[kind] if kind in ("moe", "mlp") else None,
            residual=PreNorm(norm=norm, single=True),
        )
        for i, kind in enumerate(kinds)
    ]
    config.book(("num_hidden_layers", "head_dim", "intermediate_size", "mlp_hidden_act"), "nothing: the pattern of layers says it")
    config.book(UNUSED, "nothing: it has no effect on the numbers")
    extra = config.int("num_nextn_predict_layers", 0)
    prediction = Prediction(count=extra, prefixes=("mtp.",)) if extra else None
    return decoder(config, family="nemotron_h", layers=layers, norm=norm, prediction=prediction)


def read_kinds(config: Config) -> list[str]:
    """Of each layer, from a list of words or a string of letters; the number of layers is its length."""
    words = config.list(config.first("layers_block_type", "layer_types"), None)
    if words is None:
        words = [LETTERS.get(letter, letter) for letter in config.str("hybrid_override_pattern")]
    return [SPELLINGS.get(word, word) for word in map(str, words)]


def read_mamba(config: Config, norm: Norm) -> Mamba2:
    act = config.str("mamba_hidden_act", "silu")
    if act != "silu":
        raise Day0Error(f"{act!r} after the convolution is not this family's", config.path, hint="key mamba_hidden_act")
    config.book(("time_step_limit",), "nothing: the release's code goes by time_step_min")
    return Mamba2(
        heads=config.int("mamba_num_heads"), head_dim=config.int("mamba_head_dim"), groups=config.int("n_groups"),
        state_dim=config.int("ssm_state_size"), taps=config.int("conv_kernel"), least_step=config.float("time_step_min", 0.001),
        bias=config.bool("use_bias", False), conv_bias=config.bool("use_conv_bias", True), norm=norm,
    )  # fmt: skip


def read_attention(config: Config, norm: Norm) -> Gqa:
    heads, bias = config.int("num_attention_heads"), config.bool("attention_bias", False)
    dim = config.int(config.first("attention_head_dim", "head_dim"))
    return Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5, rope=None, bias=bias, out_bias=bias
    )


def read_network(config: Config, norm: Norm) -> DenseFfn:
    act = activation(config.str("mlp_hidden_act", "relu2"), gated=False)
    return DenseFfn(width=config.int("intermediate_size"), activation=act, bias=config.bool("mlp_bias", False))


def read_experts(config: Config, norm: Norm) -> MoeFfn:
    if config.bool("mlp_bias", False):
        raise Day0Error("experts with biases are not this family's", config.path, hint="key mlp_bias")
    router = Router(
        score="sigmoid", bias=True, groups=config.int("n_group", 1), top_groups=config.int("topk_group", 1),
        renormalise=config.bool("norm_topk_prob", True), epsilon=1e-20, scale=config.float("routed_scaling_factor", 1.0),
    )  # fmt: skip
    config.book(("n_shared_experts",), "nothing: the width of the shared experts says it")
    return MoeFfn(
        experts=config.int("n_routed_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("moe_intermediate_size"),
        activation=activation(config.str("mlp_hidden_act", "relu2"), gated=False), router=router,
        latent=config.int("moe_latent_size", None), shared_width=config.int("moe_shared_expert_intermediate_size"),
    )  # fmt: skip


NAMES = Names(
    layer="layers.{i}.",
    tensors={
        "norm": "residual.norm",
        "mixer.in_proj": "mixer.inputs",
        "mixer.in_proj.bias": "mixer.inputs_bias",
        "mixer.conv1d": "mixer.conv",
        "mixer.conv1d.bias": "mixer.conv_bias",
        "mixer.A_log": "mixer.rate_log",
        "mixer.dt_bias": "mixer.step_bias",
        "mixer.D": "mixer.skip",
        "mixer.norm": "mixer.o_norm",
        **{f"mixer.{name}": "mixer.o" for name in ("out_proj", "o_proj")},
        **{f"mixer.{name}.bias": "mixer.o_bias" for name in ("out_proj", "o_proj")},
        **{f"mixer.{x}_proj": f"mixer.{x}" for x in "qkv"},
        **{f"mixer.{x}_proj.bias": f"mixer.{x}_bias" for x in "qkv"},
        **{f"mixer.{x}_proj": f"ffn.{x}" for x in ("up", "down")},
        **{f"mixer.{x}_proj.bias": f"ffn.{x}_bias" for x in ("up", "down")},
        "mixer.gate": "ffn.router",
        "mixer.gate.e_score_correction_bias": "ffn.router_bias",
        **{f"mixer.experts.{{e}}.{x}_proj": f"ffn.experts.{x}" for x in ("up", "down")},
        **{f"mixer.experts.{x}_proj": f"ffn.experts.{x}" for x in ("up", "down")},
        **{f"mixer.shared_experts.{x}_proj": f"ffn.shared.{x}" for x in ("up", "down")},
        "mixer.fc1_latent_proj": "ffn.latent_down",
        "mixer.fc2_latent_proj": "ffn.latent_up",
    },
    ends={"embeddings": "embed", "embed_tokens": "embed", "norm_f": "norm", "lm_head": "head"},
    prefixes=("backbone.", "model.", ""),
)

FAMILY = Family(recognises=frozenset({"nemotron_h"}), read=read, names=NAMES)
