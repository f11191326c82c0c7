"""Releases whose decoder is one object, `text_config`, among those of other modalities."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import TRAINING
from day0.spec.dtype import compute_dtype
from day0.spec.model import Model

TEXT = "text_config"
SAID_WITHIN = ("architectures", "model_type", "vocab_size", "hidden_size")
OTHERS = (
    "vision_config", "audio_config", "image_token_id", "image_token_index", "video_token_id", "boi_token_index", "eoi_token_index",
    "vision_start_token_id", "vision_end_token_id", "projector_bias",
)  # fmt: skip


def text_of(config: Config) -> Config:
    """The decoder's own object; the whole configuration where there is none."""
    return config.sub(TEXT) if TEXT in config else config


def within(config: Config, text: Model) -> Model:
    """The decoder `text` as a part of the whole configuration, which may say more about its type, its table and its weights."""
    config.book(TRAINING, "nothing: it has no effect on the numbers")
    config.book(SAID_WITHIN, f"nothing: {TEXT} says it")
    config.book(OTHERS, "nothing: other modalities are not computed")
    config.any("quantization_config", None)
    dtype = compute_dtype(config.str(config.first("dtype", "torch_dtype"), text.dtype))
    tied = config.bool("tie_word_embeddings", text.tied)
    return replace(text, dtype=dtype, tied=tied, read_keys=config.read_keys, unread_keys=config.unread())
