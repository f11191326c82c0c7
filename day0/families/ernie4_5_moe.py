"""ERNIE 4.5 (21B-A3B, 300B-A47B): softmax routing with a correction of the choice, shared experts, tied embeddings."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.layers import positive
from day0.checkpoint.rope import read_rope
from day0.families.glm4_moe import NAMES as GLM
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation, activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Prediction
from day0.spec.names import Names

TRAINED = ("moe_norm_min", "moe_capacity", "moe_gate", "moe_gate_act", "moe_use_aux_free")


def read(config: Config) -> Model:
    norm = rms_norm(config, 1e-5)
    heads = config.int("num_attention_heads")
    dim = config.int("head_dim", None) or config.int("hidden_size") // heads
    if config.bool("use_bias", False):
        raise Day0Error("projections with biases are not supported by this family", config.path, hint="key use_bias")
    attention = Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads", heads), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, theta=5e5, interleaved=True),
    )  # fmt: skip
    act = activation(config.str("hidden_act", "silu"))
    dense, experts = DenseFfn(width=config.int("intermediate_size"), activation=act), read_experts(config, act)
    sparse = sparse_layers(config)
    layers = [
        Layer(index=i, mixer=attention, ffn=experts if i in sparse else dense, residual=PreNorm(norm=norm))
        for i in range(config.int("num_hidden_layers"))
    ]
    extra = config.int("num_nextn_predict_layers", 0)
    prediction = Prediction(count=extra, prefixes=("model.mtp_",)) if extra else None
    return decoder(config, family="ernie4_5_moe", layers=layers, norm=norm, prediction=prediction, tied=True)


def read_experts(config: Config, act: Activation) -> MoeFfn:
    """Weights are divided by their sum; the release's lower limit of that sum, `moe_norm_min`, is never reached by the best scores."""
    config.book(TRAINED, "nothing: it has no effect on the numbers")
    width = config.int("moe_intermediate_size")
    return MoeFfn(
        experts=config.int("moe_num_experts"), top_k=config.int("moe_k"), width=width, activation=act,
        router=Router(score="softmax", bias=True, renormalise=True), shared_width=width * config.int("moe_num_shared_experts", 0),
    )  # fmt: skip


def sparse_layers(config: Config) -> set[int]:
    """Layers with experts; an end of -1 is the last one."""
    end, every = config.int("moe_layer_end_index", -1), positive(config, "moe_layer_interval", 1)
    last = config.int("num_hidden_layers") - 1 if end == -1 else end
    return {i for i in range(config.int("moe_layer_start_index", 1), last + 1) if (i + 1) % every == 0}


NAMES = Names(
    layer=GLM.layer,
    tensors={
        **GLM.tensors,
        "mlp.moe_statics.e_score_correction_bias": "ffn.router_bias",
        "mlp.gate.moe_statics.e_score_correction_bias": "ffn.router_bias",
    },
    ends=GLM.ends,
    ignored=GLM.ignored,
)

FAMILY = Family(recognises=frozenset({"ernie4_5_moe"}), read=read, names=NAMES)
