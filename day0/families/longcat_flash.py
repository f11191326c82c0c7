"""LongCat-Flash (arXiv 2509.01322): each stored layer holds two attentions and two dense networks.

Routed experts read what the first network reads; their sum is added after the second. Some experts return their input.
"""

from collections.abc import Collection
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.families.deepseek_v3 import NAMES as DEEPSEEK
from day0.families.deepseek_v3 import read_attention
from day0.parts.dense_ffn import DenseFfn
from day0.parts.mla import Mla
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.shortcut import Shortcut
from day0.spec.activation import Activation, activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Prediction
from day0.spec.names import Names

MTP = "model.mtp."


def read(config: Config) -> Model:
    norm, attention, act = rms_norm(config), read_scaled_attention(config), activation(config.str("hidden_act", "silu"))
    width = config.int(config.first("intermediate_size", "ffn_hidden_size"))
    ffns = (read_experts(config, width, act), DenseFfn(width=width, activation=act))
    layers = [
        Layer(index=i, mixer=attention, ffn=ffns[i % 2], residual=Shortcut(norm=norm, lands=i % 2 == 1))
        for i in range(2 * config.int("num_layers"))
    ]
    config.book(("num_hidden_layers", "attention_method"), "nothing: the family has one answer")
    model = decoder(config, family="longcat_flash", layers=layers, norm=norm)
    return replace(model, unused=idle(ffns[0]))


def read_scaled_attention(config: Config) -> Mla:
    """Latent attention whose latents are scaled by √(width / rank); that of the queries is a factor on q·k."""
    m, hidden = read_attention(config, theta=10000000.0), config.int("hidden_size")
    if config.bool("mla_scale_q_lora", True) and m.q_lora_rank is not None:
        m = replace(m, scale=m.scale * (hidden / m.q_lora_rank) ** 0.5)
    return replace(m, latent_scale=(hidden / m.kv_lora_rank) ** 0.5) if config.bool("mla_scale_kv_lora", True) else m


def read_experts(config: Config, width: int, act: Activation) -> MoeFfn:
    kind = config.str("zero_expert_type", "identity")
    if kind != "identity" or config.bool("router_bias", False):
        raise Day0Error("experts of another kind than this family's", config.path, hint="keys zero_expert_type, router_bias")
    factor, renormalise = config.float("routed_scaling_factor"), config.bool("norm_topk_prob", False)
    router = Router(score="softmax", bias=True, renormalise=renormalise, scale=factor)
    return MoeFfn(
        experts=config.int("n_routed_experts"), top_k=config.int(config.first("num_experts_per_tok", "moe_topk")),
        width=config.int(config.first("moe_intermediate_size", "expert_ffn_hidden_size")), activation=act, router=router,
        identities=config.int("zero_expert_num", None) or 0, shared_width=width, apart=True,
    )  # fmt: skip


def idle(f: MoeFfn) -> tuple[str, ...]:
    """Matrices of experts that return their input: the release has none, transformers writes some."""
    numbers = "|".join(str(f.experts + e) for e in range(f.identities))
    return (rf"\.mlp\.experts\.({numbers})\.",) if numbers else ()


def fit(model: Model, names: Collection[str]) -> Model:
    """With the prediction layer where one is stored: no key counts it."""
    stored = any(name.startswith(MTP) for name in names)
    return replace(model, prediction=Prediction(count=1, prefixes=(MTP,))) if stored else model


ATTENTION = {name: target for name, target in DEEPSEEK.tensors.items() if name.startswith("self_attn.") and isinstance(target, str)}
NAMES = Names(
    layer=DEEPSEEK.layer,
    per_layer=2,
    tensors={
        **{name.replace("self_attn.", f"self_attn.{half}."): f"{half}.{target}" for name, target in ATTENTION.items() for half in (0, 1)},
        **{f"input_layernorm.{half}": f"{half}.residual.mixer_norm" for half in (0, 1)},
        **{f"post_attention_layernorm.{half}": f"{half}.residual.ffn_norm" for half in (0, 1)},
        **{f"mlps.0.{name}_proj": f"0.ffn.shared.{name}" for name in ("gate", "up", "down")},
        **{f"mlps.1.{name}_proj": f"1.ffn.{name}" for name in ("gate", "up", "down")},
        **{f"mlp.experts.{{e}}.{name}_proj": f"0.ffn.experts.{name}" for name in ("gate", "up", "down")},
        "mlp.router.classifier": "0.ffn.router",
        "mlp.router.e_score_correction_bias": "0.ffn.router_bias",
    },
    ends=DEEPSEEK.ends,
    ignored=DEEPSEEK.ignored,
)

FAMILY = Family(recognises=frozenset({"longcat_flash"}), read=read, names=NAMES, fit=fit)
