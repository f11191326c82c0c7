"""What every decoder's configuration says in the same words."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.spec.dtype import compute_dtype
from day0.spec.errors import Day0Error
from day0.spec.model import Layer, Model, Norm, Prediction, Tower

TRAINING = (
    "attention_dropout", "initializer_range", "router_aux_loss_coef", "output_router_logits", "aux_loss_alpha", "seq_aux", "pretraining_tp",
    "use_cache", "transformers_version", "_name_or_path", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id", "ep_size",
)  # fmt: skip

GENERATION = (
    "add_cross_attention", "bad_words_ids", "begin_suppress_tokens", "chunk_size_feed_forward", "cross_attention_hidden_size",
    "decoder_start_token_id", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label", "is_decoder",
    "is_encoder_decoder", "label2id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "prefix", "problem_type", "pruned_heads",
    "remove_invalid_values", "repetition_penalty", "return_dict", "return_dict_in_generate", "sep_token_id", "suppress_tokens",
    "task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torchscript",
    "typical_p", "use_bfloat16",
)  # fmt: skip


def decoder(
    config: Config, *, family: str, layers: Sequence[Layer], norm: Norm | None, prediction: Prediction | None = None,
    context: str = "max_position_embeddings",
) -> Model:  # fmt: skip
    """Table, head and context around `layers`; `context` is the key of the last. Keys for training or token handling are booked as such."""
    if not layers:
        raise Day0Error("the configuration describes no layer", config.path)
    config.book(TRAINING, "nothing: it has no effect on the numbers")
    config.any("architectures", None)
    config.str("model_type", None)
    config.any("quantization_config", None)
    return Model(
        family=family,
        hidden=config.int("hidden_size"),
        vocab=config.int("vocab_size"),
        layers=tuple(layers),
        norm=norm,
        tied=config.bool("tie_word_embeddings", False),
        context=config.int(context),
        dtype=compute_dtype(config.str(config.first("dtype", "torch_dtype"), "bfloat16")),
        prediction=prediction,
        read_keys=config.read_keys,
        unread_keys=config.unread(),
    )


def beside(config: Config, text: Model, *towers: Tower) -> Model:
    """The decoder that `text_config` describes, beside towers; the outer configuration's type comes first."""
    nested = config.sub("text_config")
    nested.book(GENERATION, "nothing: defaults of text generation, which requests override")
    config.book((*TRAINING, *GENERATION), "nothing: it has no effect on the numbers")
    config.book(("architectures", "model_type", "quantization_config", "tie_word_embeddings"), "nothing: text_config says it")
    dtype = compute_dtype(config.str(config.first("dtype", "torch_dtype"), text.dtype))
    return replace(text, towers=towers, dtype=dtype, read_keys=config.read_keys, unread_keys=config.unread())


def rms_norm(config: Config) -> Norm:
    """The norm of the whole model, from `rms_norm_eps`."""
    return Norm(eps=config.float("rms_norm_eps", 1e-6))


def per_layer(config: Config, key: str, kinds: Sequence[str], known: Collection[str]) -> Sequence[str]:
    """The first `num_hidden_layers` entries of a list that names a kind for every layer; Day0Error for a short list or an unknown kind."""
    count = config.int("num_hidden_layers")
    if len(kinds) < count:
        raise Day0Error(f"{key} has {len(kinds)} entries for {count} layers", config.path)
    strange = next((kind for kind in kinds[:count] if kind not in [*known]), None)
    if strange is not None:
        raise Day0Error(f"{key} has an entry {strange!r}", config.path, hint=f"known: {', '.join(known)}")
    return kinds[:count]
