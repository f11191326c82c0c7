"""Qwen3.5, Qwen3.6 and Qwen3.8 mixtures: Qwen3-Next with separate projections. Released beside a vision tower, or alone.

bfloat16 releases hold all experts of a layer in one tensor, fp8 releases each expert in its own."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder
from day0.checkpoint.nested import read_text
from day0.families.qwen3_next import TENSORS, read_experts, read_mixers, read_norm
from day0.parts.pre_norm import PreNorm
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Prediction, Tower
from day0.spec.names import Cut, Names

VISION = Tower(name="vision", prefixes=("model.visual.", "visual."))


def read(config: Config) -> Model:
    return read_text(config, read_language, VISION)


def read_language(config: Config) -> Model:
    norm, experts = read_norm(config), read_experts(config)
    mixers = read_mixers(config, norm, grouped=False)
    layers = [Layer(index=i, mixer=mixer, ffn=experts, residual=PreNorm(norm=norm)) for i, mixer in enumerate(mixers)]
    extra = config.int("mtp_num_hidden_layers", 0)
    config.book(("mtp_use_dedicated_embeddings",), "nothing: prediction layers are left out")
    config.book(("attn_output_gate", "mamba_ssm_dtype", "mlp_only_layers", "intermediate_size"), "nothing: this family has no other way")
    sections = ("mrope_section", "mrope_interleaved")
    config.sub("rope_parameters").book(sections, "nothing: in text, time, height and width are one position")
    prediction = Prediction(count=extra, prefixes=("mtp.",)) if extra else None
    return decoder(config, family="qwen3_5_moe", layers=layers, norm=norm, prediction=prediction)


NAMES = Names(
    layer="layers.{i}.",
    tensors={
        **TENSORS,
        "linear_attn.in_proj_qkv": "mixer.qkv",
        "linear_attn.in_proj_z": "mixer.z",
        "linear_attn.in_proj_b": "mixer.beta",
        "linear_attn.in_proj_a": "mixer.decay",
        "mlp.experts.gate_up_proj": (
            Cut(target="ffn.experts.gate", axis=1, part=0, of=2),
            Cut(target="ffn.experts.up", axis=1, part=1, of=2),
        ),
        "mlp.experts.down_proj": "ffn.experts.down",
    },
    ends={"embed_tokens": "embed", "norm": "norm", "lm_head": "head"},
    prefixes=("model.language_model.", "model.", ""),
)

FAMILY = Family(recognises=frozenset({"qwen3_5_moe", "qwen3_5_moe_text"}), read=read, names=NAMES)
