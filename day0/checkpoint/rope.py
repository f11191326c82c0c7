"""What configurations say about rotary embedding, in the spelling of any year."""

from collections.abc import Callable
from typing import Any

from day0.checkpoint.config import Config
from day0.spec.errors import Day0Error
from day0.spec.rope import Rope, yarn_mscale


def read_rope(
    config: Config, head_dim: int, *, theta: float = 10000.0, interleaved: bool = False, partial: float = 1.0, stretch: Config | None = None
) -> Rope:
    """Rope of a head of `head_dim`; `theta` and `partial`, the share of it that turns, are the family's defaults.

    Keys: `rope_parameters` (transformers 5), or `rope_theta` with `rope_scaling`, and `partial_rotary_factor` in either place. A release
    with several ropes gives the object of the one that is meant as `stretch`.
    """
    if stretch is None:
        stretch = config.sub("rope_parameters" if "rope_parameters" in config else "rope_scaling")
        _agree(stretch, config, "rope_theta")
        _agree(stretch, config, "partial_rotary_factor")
    base = stretch.float("rope_theta", None) or config.float("rope_theta", theta)
    outer = config.float("partial_rotary_factor", partial)
    share = stretch.float("partial_rotary_factor", None) or outer
    dim = int(head_dim * share)
    if dim % 2 or dim <= 0:
        raise Day0Error(f"{dim} rotary dimensions of a head of {head_dim}: must be even and positive", config.path)
    rule = stretch.str(stretch.first("rope_type", "type"), "default")
    if "type" in stretch:
        stretch.str("type")
    reader = _STRETCHES.get(rule)
    if reader is None:
        raise Day0Error(f"rope_type {rule!r} is not supported", config.path, hint=f"supported: {', '.join(_STRETCHES)}")
    return Rope(dim=dim, theta=base, interleaved=interleaved, **reader(stretch, config))


def _agree(stretch: Config, config: Config, key: str) -> None:
    """A value that stands in both places is the same in both."""
    inner, outer = stretch.float(key, None), config.float(key, None)
    if inner is not None and outer is not None and inner != outer:
        problem = f"{config.prefix}{key} is {outer:.8g}, {stretch.prefix}{key} is {inner:.8g}"
        raise Day0Error(problem, config.path, hint="look up which of the two the model's own code reads, and take the other out")


def stretch_of(config: Config, kind: str) -> Config | None:
    """The object of one kind of layer in `rope_parameters`; None where that is not by kind."""
    return config.sub("rope_parameters").sub(kind) if kind in config.sub("rope_parameters") else None


def softmax_mscale(config: Config) -> float:
    """Factor on q·k that DeepSeek models take from YaRN: mscale squared (arXiv 2405.04434, §3.1.3); 1 without YaRN."""
    stretch = config.sub("rope_parameters" if "rope_parameters" in config else "rope_scaling")
    if stretch.str(stretch.first("rope_type", "type"), "default") == "default":
        return 1.0
    all_dim = stretch.float("mscale_all_dim", 0.0)
    return yarn_mscale(stretch.float("factor"), all_dim) ** 2 if all_dim else 1.0


def _plain(stretch: Config, config: Config) -> dict[str, Any]:
    return {}


def _linear(stretch: Config, config: Config) -> dict[str, Any]:
    return {"stretch": "linear", "factor": stretch.float("factor")}


def _llama3(stretch: Config, config: Config) -> dict[str, Any]:
    return {
        "stretch": "llama3",
        "factor": stretch.float("factor"),
        "low": stretch.float("low_freq_factor"),
        "high": stretch.float("high_freq_factor"),
        "original_context": stretch.int("original_max_position_embeddings"),
    }


def _yarn(stretch: Config, config: Config) -> dict[str, Any]:
    original = stretch.int("original_max_position_embeddings")
    factor = stretch.float("factor", None) or config.int("max_position_embeddings") / original
    mscale, all_dim = stretch.float("mscale", None), stretch.float("mscale_all_dim", None)
    ratio = yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim) if mscale and all_dim else yarn_mscale(factor)
    return {
        "stretch": "yarn",
        "factor": factor,
        "original_context": original,
        "low": stretch.float("beta_slow", None) or 1.0,
        "high": stretch.float("beta_fast", None) or 32.0,
        "truncate": stretch.bool("truncate", True),
        "attention_factor": stretch.float("attention_factor", ratio),
    }


_STRETCHES: dict[str, Callable[[Config, Config], dict[str, Any]]] = {
    "default": _plain,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
