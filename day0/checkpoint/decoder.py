"""What every decoder's configuration says in the same words."""

from collections.abc import Collection, Sequence

from day0.checkpoint.config import Config
from day0.spec.dtype import compute_dtype
from day0.spec.errors import Day0Error
from day0.spec.model import Layer, Model, Norm, Prediction

TRAINING = (
    "attention_dropout", "initializer_range", "router_aux_loss_coef", "output_router_logits", "aux_loss_alpha", "seq_aux", "pretraining_tp",
    "use_cache", "transformers_version", "_name_or_path", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id", "ep_size",
)  # fmt: skip


def decoder(
    config: Config, *, family: str, layers: Sequence[Layer], norm: Norm | None, prediction: Prediction | None = None,
    context: str = "max_position_embeddings", tied: bool = False,
) -> Model:  # fmt: skip
    """Table, head and context around `layers`; `context` is the key of the last, `tied` the family's default of `tie_word_embeddings`.

    Keys for training or token handling are booked as such.
    """
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
        tied=config.bool("tie_word_embeddings", tied),
        context=config.int(context),
        dtype=compute_dtype(config.str(config.first("dtype", "torch_dtype"), "bfloat16")),
        prediction=prediction,
        read_keys=config.read_keys,
        unread_keys=config.unread(),
    )


def predictions(config: Config, layers: int, *, key: str = "num_nextn_predict_layers") -> Prediction | None:
    """Prediction layers that are stored under the numbers after the stack's; `key` says how many."""
    extra = config.int(key, 0)
    return Prediction(count=extra, prefixes=tuple(f"model.layers.{layers + i}." for i in range(extra))) if extra else None


def expect(config: Config, **fixed: object) -> None:
    """Day0Error where a key has a value that the family does not compute with; absent keys have the family's value."""
    for key, value in fixed.items():
        found = config.any(key, value)
        if found != value:
            raise Day0Error(f"{key} {found!r} is not supported by this family", config.path, hint=f"only {value!r} is")


def rms_norm(config: Config, eps: float = 1e-6) -> Norm:
    """The norm of the whole model, from `rms_norm_eps`; `eps` is the family's default."""
    return Norm(eps=config.float("rms_norm_eps", eps))


def per_layer(config: Config, key: str, kinds: Sequence[str], known: Collection[str]) -> Sequence[str]:
    """The first `num_hidden_layers` entries of a list that names a kind for every layer; Day0Error for a short list or an unknown kind."""
    count = config.int("num_hidden_layers")
    if len(kinds) < count:
        raise Day0Error(f"{key} has {len(kinds)} entries for {count} layers", config.path)
    strange = next((kind for kind in kinds[:count] if kind not in [*known]), None)
    if strange is not None:
        raise Day0Error(f"{key} has an entry {strange!r}", config.path, hint=f"known: {', '.join(known)}")
    return kinds[:count]
