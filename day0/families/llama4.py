"""Llama 4 Scout and Maverick, the text part: chunks with rotation, every fourth layer without; one expert beside a shared one."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.fused import fused_experts
from day0.checkpoint.layers import layer_kinds, positive
from day0.checkpoint.nested import read_text
from day0.checkpoint.rope import read_rope
from day0.families.llama import NAMES as LLAMA
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa, Temperature
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, Tower
from day0.spec.names import Names

PREFIXES = ("vision_model.", "multi_modal_projector.")
VISION = Tower(name="vision", prefixes=(*PREFIXES, *(f"model.{prefix}" for prefix in PREFIXES)))
KINDS = ("full_attention", "chunked_attention")


def read(config: Config) -> Model:
    return read_text(config, read_language, VISION)


def read_language(text: Config) -> Model:
    norm = rms_norm(text, 1e-5)
    act = activation(text.str("hidden_act", "silu"))
    width, count = text.int("intermediate_size"), text.int("num_hidden_layers")
    dense = DenseFfn(width=text.int("intermediate_size_mlp"), activation=act)
    experts = MoeFfn(
        experts=text.int("num_local_experts"), top_k=text.int("num_experts_per_tok"), width=width, activation=act, shared_width=width,
        router=Router(score="sigmoid", choice_first=True), scale_input=True,
    )  # fmt: skip
    text.book(("router_jitter_noise", "for_llm_compressor", "_attn_implementation_autoset"), "nothing: it has no effect on the numbers")
    step = positive(text, "interleave_moe_layer_step", 1)
    sparse = text.list("moe_layers", list(range(step - 1, count, step)))
    layers = [
        Layer(index=i, mixer=mixer, ffn=experts if i in sparse else dense, residual=PreNorm(norm=norm))
        for i, mixer in enumerate(read_mixers(text, norm))
    ]
    return decoder(text, family="llama4", layers=layers, norm=norm)


def read_mixers(config: Config, norm: Norm) -> list[Gqa]:
    """Rotated layers may norm their queries and keys and see a chunk; the others see all, and may sharpen with position."""
    count, every = config.int("num_hidden_layers"), positive(config, "no_rope_layer_interval", 4)
    turned = config.list("no_rope_layers", None) or [int((i + 1) % every != 0) for i in range(count)]
    if len(turned) < count:
        raise Day0Error(f"no_rope_layers has {len(turned)} entries for {count} layers", config.path)
    chunk = config.int("attention_chunk_size", 8192 if "attention_chunk_size" not in config.data else None)
    default = [KINDS[bool(turned[i]) and chunk is not None] for i in range(count)]
    kinds = layer_kinds(config, KINDS, default)
    heads, dim = config.int("num_attention_heads"), config.int("head_dim", 128)
    bias, unit = config.bool("attention_bias", False), config.bool("use_qk_norm", True)
    plain = Gqa(
        heads=heads, kv_heads=config.int("num_key_value_heads", heads), qk_dim=dim, v_dim=dim, scale=dim**-0.5, rope=None, bias=bias,
        out_bias=bias, temperature=read_temperature(config),
    )  # fmt: skip
    rope = read_rope(config, dim, theta=5e5, interleaved=True)
    rotated = replace(plain, rope=rope, temperature=None, unit_eps=norm.eps if unit else None)
    return [
        replace(rotated if turns else plain, window=chunk if kind == "chunked_attention" else None, chunked=kind == "chunked_attention")
        for turns, kind in zip(turned, kinds, strict=False)
    ]


def read_temperature(config: Config) -> Temperature | None:
    """The switch is true, or 4 in some releases."""
    floor, scale = positive(config, "floor_scale", 8192), config.float("attn_scale", 0.1)
    return Temperature(floor=floor, scale=scale) if config.any("attn_temperature_tuning", True) else None


NAMES = Names(
    layer=LLAMA.layer,
    tensors={
        **{name: target for name, target in LLAMA.tensors.items() if not name.startswith("mlp.")},
        "feed_forward.router": "ffn.router",
        **fused_experts("feed_forward.experts", transpose=True),
        **{f"feed_forward.{name}_proj": f"ffn.{name}" for name in ("gate", "up", "down")},
        **{f"feed_forward.shared_expert.{name}_proj": f"ffn.shared.{name}" for name in ("gate", "up", "down")},
    },
    ends=LLAMA.ends,
    prefixes=("language_model.", ""),
    ignored=LLAMA.ignored,
)

FAMILY = Family(recognises=frozenset({"llama4", "llama4_text"}), read=read, names=NAMES)
