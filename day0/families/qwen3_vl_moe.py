"""Qwen3-VL mixtures: Qwen3's decoder, its experts stored together, turned by three positions, beside a tower with DeepStack."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import expect
from day0.checkpoint.fused import fused_experts
from day0.checkpoint.nested import read_text
from day0.families import qwen3_moe
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Tower
from day0.spec.names import Names
from day0.towers import qwen3_vl as tower

SECTIONS = [24, 20, 20]  # pairs that turn with time, row and column


def read(config: Config) -> Model:
    return read_text(config, read_language, Tower(name="vision", prefixes=tower.PREFIXES, encoder=tower.read(config)))


def read_language(text: Config) -> Model:
    model = replace(qwen3_moe.read(text, renormalise=True), family="qwen3_vl_moe")
    said = text.sub("rope_parameters" if "rope_parameters" in text else "rope_scaling")
    expect(said, mrope_interleaved=True)
    sections = said.list("mrope_section", SECTIONS)
    read_keys, unread = text.read_keys, text.unread()
    return replace(model, layers=tuple(turned(layer, sections, text) for layer in model.layers), read_keys=read_keys, unread_keys=unread)


def turned(layer: Layer, sections: list[int], config: Config) -> Layer:
    """Pairs take turns, time, row, column, as long as row and column have pairs left; the others turn with time (Interleaved-MRoPE)."""
    if len(sections) != 3 or not all(type(count) is int and count >= 0 for count in sections):
        raise Day0Error(f"mrope_section {sections!r:.60} is not three numbers of pairs", config.path)
    mixer = layer.mixer
    pairs = mixer.rope.dim // 2  # type: ignore[union-attr]
    axes = tuple(axis if axis and pair < 3 * sections[axis] else 0 for pair, axis in ((pair, pair % 3) for pair in range(pairs)))
    return replace(layer, mixer=replace(mixer, rope=replace(mixer.rope, axes=axes)))  # type: ignore[union-attr,type-var]


NAMES = Names(
    layer="layers.{i}.",
    tensors={**qwen3_moe.NAMES.tensors, **fused_experts("mlp.experts", transpose=True)},
    ends={"embed_tokens": "embed", "norm": "norm", "lm_head": "head"},
    prefixes=("model.language_model.", "model.", ""),
    ignored=qwen3_moe.NAMES.ignored,
)

FAMILY = Family(recognises=frozenset({"qwen3_vl_moe", "qwen3_vl_moe_text"}), read=read, names=NAMES, towers={"vision": tower.NAMES})
