"""Qwen3-Next: three layers of gated DeltaNet to one of gated attention, many small experts and a shared one behind a gate."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder
from day0.checkpoint.rope import read_rope
from day0.families.qwen3_moe import NAMES as QWEN
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gated_attention import GatedAttention
from day0.parts.gdn import Gdn
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, PartSpec, Prediction
from day0.spec.names import Names

PREDICTION = Prediction(count=1, prefixes=("mtp.",))  # the release ships one, and its configuration does not say so


def read(config: Config) -> Model:
    norm = read_norm(config)
    act = activation(config.str("hidden_act", "silu"))
    experts = read_experts(config)
    step, dense_layers = config.int("decoder_sparse_step", 1), config.list("mlp_only_layers", [])
    dense = DenseFfn(width=config.int("intermediate_size"), activation=act)
    layers = [
        Layer(index=i, mixer=mixer, ffn=dense if i in dense_layers or (i + 1) % step else experts, residual=PreNorm(norm=norm))
        for i, mixer in enumerate(read_mixers(config, norm, grouped=True))
    ]
    return decoder(config, family="qwen3_next", layers=layers, norm=norm, prediction=PREDICTION)


def read_norm(config: Config) -> Norm:
    """Norms of the stream, of queries and of keys; that of a linear layer's output stores its weight itself."""
    return Norm(eps=config.float("rms_norm_eps", 1e-6), plus_one=True)


def read_mixers(config: Config, norm: Norm, *, grouped: bool, full_names: tuple[str, ...] = ("full_attention",)) -> list[PartSpec]:
    """That of every layer: from `layer_types`, else every `full_attention_interval`-th one is full attention."""
    heads, dim, bias = config.int("num_attention_heads"), config.int("head_dim", 256), config.bool("attention_bias", False)
    full = GatedAttention(
        heads=heads, kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, partial=0.25), bias=bias, out_bias=bias, qk_norm=norm,
    )  # fmt: skip
    linear = Gdn(
        key_heads=config.int("linear_num_key_heads"), value_heads=config.int("linear_num_value_heads"),
        key_dim=config.int("linear_key_head_dim"), value_dim=config.int("linear_value_head_dim"),
        taps=config.int("linear_conv_kernel_dim", 4), grouped=grouped, norm=Norm(eps=norm.eps),
    )  # fmt: skip
    count, every = config.int("num_hidden_layers"), config.int("full_attention_interval", 4)
    kinds = config.list("layer_types", ["linear_attention" if (i + 1) % every else "full_attention" for i in range(count)])
    if len(kinds) != count or not set(kinds) <= {"linear_attention", *full_names}:
        raise Day0Error(f"layer_types should name {count} layers, linear_attention or full_attention", config.path)
    return [linear if kind == "linear_attention" else full for kind in kinds]


def read_experts(config: Config) -> MoeFfn:
    return MoeFfn(
        experts=config.int("num_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("moe_intermediate_size"),
        activation=activation(config.str("hidden_act", "silu")),
        router=Router(score="softmax", renormalise=config.bool("norm_topk_prob", True)),
        shared_width=config.int("shared_expert_intermediate_size"), shared_gate=True,
    )  # fmt: skip


TENSORS = {
    **QWEN.tensors,
    "linear_attn.in_proj_qkvz": "mixer.qkvz",
    "linear_attn.in_proj_ba": "mixer.ba",
    "linear_attn.conv1d": "mixer.conv",
    "linear_attn.A_log": "mixer.rate_log",
    "linear_attn.dt_bias": "mixer.decay_bias",
    "linear_attn.norm": "mixer.o_norm",
    "linear_attn.out_proj": "mixer.o",
    "mlp.shared_expert.gate_proj": "ffn.shared.gate",
    "mlp.shared_expert.up_proj": "ffn.shared.up",
    "mlp.shared_expert.down_proj": "ffn.shared.down",
    "mlp.shared_expert_gate": "ffn.shared_gate",
}
NAMES = Names(layer=QWEN.layer, tensors=TENSORS, ends=QWEN.ends, ignored=QWEN.ignored)

FAMILY = Family(recognises=frozenset({"qwen3_next"}), read=read, names=NAMES)
