"""GLM-4.5, 4.6 and 4.7: grouped-query attention with partial rotation, leading dense layers, then shared and routed experts."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, predictions, rms_norm
from day0.checkpoint.rope import read_rope
from day0.families.deepseek_v3 import NAMES as DEEPSEEK
from day0.families.deepseek_v3 import read_experts
from day0.families.qwen3_moe import NAMES as QWEN
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm
from day0.spec.names import Names


def read(config: Config) -> Model:
    norm = rms_norm(config, 1e-5)
    attention = read_attention(config, norm if config.bool("use_qk_norm", False) else None, partial=0.5)
    layers = read_layers(config, attention, norm, dense=config.int("first_k_dense_replace", 1))
    return decoder(config, family="glm4_moe", layers=layers, norm=norm, prediction=predictions(config, len(layers)))


def read_attention(config: Config, qk_norm: Norm | None, *, theta: float = 10000.0, partial: float = 1.0) -> Gqa:
    """Full attention whose queries, keys and values may have a bias, but not its output; `theta` and `partial` are defaults of the rope."""
    expect(config, use_sliding_window=False)
    heads = config.int("num_attention_heads")
    dim = config.int("head_dim", None) or config.int("hidden_size") // heads
    return Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads", heads), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, theta=theta, partial=partial), bias=config.bool("attention_bias", False), qk_norm=qk_norm,
    )  # fmt: skip


def read_layers(config: Config, attention: Gqa, norm: Norm, *, dense: int) -> list[Layer]:
    """The first `dense` layers without experts, the others with DeepSeek-V3's rule of choice."""
    act = activation(config.str("hidden_act", "silu"))
    experts = read_experts(config, act)
    network = DenseFfn(width=config.int("intermediate_size"), activation=act) if dense else experts
    residual = PreNorm(norm=norm)
    return [
        Layer(index=i, mixer=attention, ffn=network if i < dense else experts, residual=residual)
        for i in range(config.int("num_hidden_layers"))
    ]


NAMES = Names(
    layer=QWEN.layer,
    tensors={**QWEN.tensors, **{name: target for name, target in DEEPSEEK.tensors.items() if name.startswith("mlp.")}},
    ends=QWEN.ends,
    ignored=QWEN.ignored,
)

FAMILY = Family(recognises=frozenset({"glm4_moe"}), read=read, names=NAMES)
