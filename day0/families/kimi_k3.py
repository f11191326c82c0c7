"""Kimi K3: delta attention and gated latent attention without positions, Attention Residuals, experts that work in a latent."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.nested import read_text
from day0.families.kimi_linear import NAMES as KIMI_LINEAR
from day0.families.kimi_linear import context, read_layers
from day0.parts.attention_residuals import AttentionResiduals
from day0.spec.activation import activation
from day0.spec.family import Family
from day0.spec.model import Model, Tower
from day0.spec.names import Cut, Names

VISION = Tower(name="vision", prefixes=("vision_tower.", "mm_projector."))


def read(config: Config) -> Model:
    return read_text(config, read_language, VISION)


def read_language(config: Config) -> Model:
    norm, block = rms_norm(config), config.int("attn_res_block_size")
    act = replace(
        activation(config.str("hidden_act")), beta=config.float("activation_situ_beta", 4.0),
        linear_beta=config.float("activation_situ_linear_beta", 25.0),
    )  # fmt: skip

    def residual(index: int) -> AttentionResiduals:
        return AttentionResiduals(norm=norm, place="first" if index == 0 else "inside" if index % block else "start")

    layers = read_layers(config, norm, act, residual)
    model = decoder(config, family="kimi_k3", layers=layers, norm=norm, context=context(config))
    return replace(model, collapse=AttentionResiduals(norm=norm, place="end"))


NAMES = Names(
    layer=KIMI_LINEAR.layer,
    tensors={
        **KIMI_LINEAR.tensors,
        "self_attn.A_log": (Cut(target="mixer.rate_log", padded=True),),
        "self_attention_res_norm": "residual.mixer_mix_norm",
        "self_attention_res_proj": "residual.mixer_mix_query",
        "mlp_res_norm": "residual.ffn_mix_norm",
        "mlp_res_proj": "residual.ffn_mix_query",
        "input_layernorm": "residual.mixer_norm",
        "post_attention_layernorm": "residual.ffn_norm",
        "block_sparse_moe.routed_expert_down_proj": "ffn.latent_down",
        "block_sparse_moe.routed_expert_up_proj": "ffn.latent_up",
        "block_sparse_moe.routed_expert_norm": "ffn.latent_norm",
    },
    ends={
        **KIMI_LINEAR.ends,
        "model.output_attn_res_norm": "collapse.end_mix_norm",
        "model.output_attn_res_proj": "collapse.end_mix_query",
    },
    prefixes=("language_model.", ""),
    ignored=(r"layers\.0\.self_attention_res_(norm|proj)\.",),
)

# The list of modules that are left out names neither the maps into the experts' latent nor those of the residuals; their tensors are plain.
FAMILY = Family(recognises=frozenset({"kimi_k3"}), read=read, names=NAMES, packed=("expert",))
