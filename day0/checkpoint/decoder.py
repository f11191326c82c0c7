"""What every decoder's configuration says in the same words."""

from collections.abc import Sequence

from day0.checkpoint.config import Config
from day0.spec.dtype import compute_dtype
from day0.spec.errors import Day0Error
from day0.spec.model import Layer, Model, Norm, Prediction

TRAINING = (
    "attention_dropout", "initializer_range", "router_aux_loss_coef", "output_router_logits", "aux_loss_alpha", "seq_aux", "pretraining_tp",
    "use_cache", "transformers_version", "_name_or_path", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id", "ep_size",
)  # fmt: skip


def decoder(
    config: Config, *, family: str, layers: Sequence[Layer], norm: Norm, prediction: Prediction | None = None,
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


def rms_norm(config: Config) -> Norm:
    """The norm of the whole model, from `rms_norm_eps`."""
    return Norm(eps=config.float("rms_norm_eps", 1e-6))
