"""Qwen3-VL mixtures, the text part: Qwen3's decoder, its experts stored together; without images its three positions are one."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.fused import fused_experts
from day0.checkpoint.nested import read_text
from day0.families import qwen3_moe
from day0.spec.family import Family
from day0.spec.model import Model, Tower
from day0.spec.names import Names

VISION = Tower(name="vision", prefixes=("model.visual.", "visual."))


def read(config: Config) -> Model:
    return read_text(config, read_language, VISION)


def read_language(text: Config) -> Model:
    for key in ("rope_scaling", "rope_parameters"):
        text.sub(key).book(("mrope_section", "mrope_interleaved"), "nothing: text has one position")
    return replace(qwen3_moe.read(text, renormalise=True), family="qwen3_vl_moe")


NAMES = Names(
    layer="layers.{i}.",
    tensors={**qwen3_moe.NAMES.tensors, **fused_experts("mlp.experts", transpose=True)},
    ends={"embed_tokens": "embed", "norm": "norm", "lm_head": "head"},
    prefixes=("model.language_model.", "model.", ""),
    ignored=qwen3_moe.NAMES.ignored,
)

FAMILY = Family(recognises=frozenset({"qwen3_vl_moe", "qwen3_vl_moe_text"}), read=read, names=NAMES)
