"""Releases whose configuration holds that of the language model beside those of towers for images or sound."""

from collections.abc import Callable
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import TRAINING
from day0.spec.dtype import compute_dtype
from day0.spec.model import Model, Tower

WITHIN = ("architectures", "model_type", "vocab_size", "hidden_size", "text_config")
TOKENS = (
    "boi_token_index", "eoi_token_index", "ignore_index", "image_placeholder", "image_token_id", "image_token_index",
    "media_placeholder_token_id", "video_token_id", "vision_end_token_id", "vision_start_token_id",
)  # fmt: skip
TOWERS = ("vision_config", "audio_config", "projector_bias")
WRITTEN = (  # what transformers 4 wrote into every nested configuration
    "add_cross_attention", "bad_words_ids", "begin_suppress_tokens", "chunk_size_feed_forward", "cross_attention_hidden_size",
    "decoder_start_token_id", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label", "is_decoder",
    "is_encoder_decoder", "label2id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "prefix", "problem_type", "pruned_heads",
    "remove_invalid_values", "repetition_penalty", "return_dict", "return_dict_in_generate", "sep_token_id", "suppress_tokens",
    "task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torchscript",
    "typical_p", "use_bfloat16",
)  # fmt: skip


def read_text(config: Config, read: Callable[[Config], Model], *towers: Tower, key: str = "text_config") -> Model:
    """The language model that `read` finds under `key`, or in the whole configuration where there is no such key; beside `towers`.

    What the outer configuration says about the compute type and about tied embeddings comes first.
    """
    if key not in config:
        return replace(read(config), towers=towers)
    text = config.sub(key)
    text.book(WRITTEN, "nothing: it has no effect on the numbers")
    model = read(text)
    config.book((*TRAINING, *TOKENS, *WRITTEN), "nothing: it has no effect on the numbers")
    config.book(WITHIN, f"nothing: {key} says it")
    config.book(TOWERS, "nothing: towers are not computed")
    config.any("quantization_config", None)
    dtype = compute_dtype(config.str(config.first("dtype", "torch_dtype"), model.dtype))
    tied = config.bool("tie_word_embeddings", model.tied)
    return replace(model, towers=towers, dtype=dtype, tied=tied, read_keys=config.read_keys, unread_keys=config.unread())
