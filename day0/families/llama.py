"""Dense decoders in Llama's shape: Llama 2 and 3, Mistral, Qwen2 and Qwen3, and what was built like them."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.rope import read_rope
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm
from day0.spec.names import Names

BIASED = {"qwen2"}  # q, k and v have a bias, whatever the configuration says
QK_NORM = {"qwen3"}  # queries and keys are normed per head


def read(config: Config) -> Model:
    norm = rms_norm(config)
    attention = read_attention(config, norm)
    act = activation(config.str("hidden_act", "silu"))
    ffn = DenseFfn(width=config.int("intermediate_size"), activation=act, bias=config.bool("mlp_bias", False))
    layers = [Layer(index=i, mixer=attention, ffn=ffn, residual=PreNorm(norm=norm)) for i in range(config.int("num_hidden_layers"))]
    return decoder(config, family="llama", layers=layers, norm=norm)


def read_attention(config: Config, norm: Norm) -> Gqa:
    """Full attention with the options that Llama, Mistral and Qwen use."""
    refuse_window(config)
    kind = config.str("model_type", "llama")
    heads = config.int("num_attention_heads")
    dim = config.int("head_dim", None) or config.int("hidden_size") // heads
    bias = config.bool("attention_bias", False)
    return Gqa(
        heads=heads,
        kv_heads=config.int("num_key_value_heads", heads),
        qk_dim=dim,
        v_dim=dim,
        scale=dim**-0.5,
        rope=read_rope(config, dim),
        bias=bias or kind in BIASED,
        out_bias=bias and kind not in BIASED,
        qk_norm=norm if kind in QK_NORM else None,
    )


def refuse_window(config: Config) -> None:
    """Sliding windows are another mixer: an error rather than an answer that is right only for short prompts."""
    window = config.int("sliding_window", None)
    used = config.bool("use_sliding_window", window is not None)
    config.book(("max_window_layers",), "nothing without a sliding window")
    if window is not None and used and window < config.int("max_position_embeddings"):
        raise Day0Error(f"sliding window of {window} tokens is not supported by this family", config.path, hint="key sliding_window")


NAMES = Names(
    layer="model.layers.{i}.",
    tensors={
        "self_attn.q_proj": "mixer.q",
        "self_attn.k_proj": "mixer.k",
        "self_attn.v_proj": "mixer.v",
        "self_attn.o_proj": "mixer.o",
        "self_attn.q_proj.bias": "mixer.q_bias",
        "self_attn.k_proj.bias": "mixer.k_bias",
        "self_attn.v_proj.bias": "mixer.v_bias",
        "self_attn.o_proj.bias": "mixer.o_bias",
        "self_attn.q_norm": "mixer.q_norm",
        "self_attn.k_norm": "mixer.k_norm",
        "mlp.gate_proj": "ffn.gate",
        "mlp.up_proj": "ffn.up",
        "mlp.down_proj": "ffn.down",
        "mlp.gate_proj.bias": "ffn.gate_bias",
        "mlp.up_proj.bias": "ffn.up_bias",
        "mlp.down_proj.bias": "ffn.down_bias",
        "input_layernorm": "residual.mixer_norm",
        "post_attention_layernorm": "residual.ffn_norm",
    },
    ends={"model.embed_tokens": "embed", "model.norm": "norm", "lm_head": "head"},
    ignored=(r"rotary_emb\.inv_freq$",),
)

FAMILY = Family(recognises=frozenset({"llama", "mistral", "qwen2", "qwen3"}), read=read, names=NAMES)
