"""Kimi K2.5, K2.6 and K2.7: the decoder of Kimi K2 beside a vision tower, described by `text_config`."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.nested import read_text
from day0.families import deepseek_v3
from day0.spec.family import Family
from day0.spec.model import Model, Tower
from day0.spec.names import Names
from day0.towers import kimi_k25 as tower

VISUAL = (
    "vision_config", "ignore_index", "media_placeholder_token_id", "image_token_id", "vision_start_token_id",
    "vision_end_token_id", "projection_hidden_size", "use_unified_vision_chunk", "video_placeholder",
)  # fmt: skip
IMAGE, VIDEO = 163605, 163840  # transformers, Kimi_K25Config


def read(config: Config) -> Model:
    config.book(VISUAL, "nothing: tokens of images are given in prompts")
    model = read_text(config, deepseek_v3.read, Tower(name="vision", prefixes=tower.PREFIXES))
    encoder = tower.read(config, model.hidden)
    towers = (replace(model.towers[0], encoder=encoder),)
    placeholders = (config.int(config.first("media_placeholder_token_id", "image_token_id"), IMAGE), config.int("video_token_id", VIDEO))
    return replace(
        model, family="kimi_k25", placeholders=placeholders, towers=towers, read_keys=config.read_keys, unread_keys=config.unread()
    )  # fmt: skip


NAMES = Names(
    layer=deepseek_v3.NAMES.layer,
    tensors=deepseek_v3.NAMES.tensors,
    ends=deepseek_v3.NAMES.ends,
    prefixes=("language_model.",),
    ignored=deepseek_v3.NAMES.ignored,
)

FAMILY = Family(recognises=frozenset({"kimi_k25"}), read=read, names=NAMES, towers={"vision": tower.NAMES})
