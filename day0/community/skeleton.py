"""The class that transformers has for a release, built without memory: every weight is on the meta device."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from day0.community.extra import transformers
from day0.spec.errors import Day0Error

PACKED = ("quantization_config", "compression_config")  # weights arrive decoded, so the class must not expect packed ones

# grouped products refuse odd widths and round as the library likes; the loop over experts is what the class itself says
EXPERTS = "eager"


class NoReference(Day0Error):
    """transformers has nothing to compare a release with."""


def skeleton(config: Mapping[str, Any], path: str, dtype: torch.dtype, device: torch.device, experts: str = EXPERTS) -> Any:
    """The causal language model of `config`, in `dtype`, in evaluation mode; what no checkpoint holds (rotary frequencies) is real.

    Code inside a model folder is never run. A `model_type` that transformers does not know is built as the class in `architectures`.
    """
    library = transformers()
    settings = _settings(library, _plain(config), path)
    try:
        kind = _class_of(library, settings)
        text = settings.get_text_config()
        settings = text if kind.config_class is type(text) else settings
        attention = "sdpa" if kind._supports_sdpa else "eager"
        with torch.device("meta"), transformers("initialization").no_init_weights():
            model = kind._from_config(settings, dtype=dtype, attn_implementation=attention, experts_implementation=experts)
    except NoReference as error:
        raise NoReference(error.problem, path, hint=error.hint) from None
    except Exception as error:  # whatever the class makes of numbers that it did not expect
        raise NoReference(f"transformers cannot build {type(settings).__name__}: {_first(error)}", path) from error
    _fill_buffers(model, device)
    return model.eval().requires_grad_(False)


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without a word about how weights are packed, at any depth, and without a pointer to code."""
    kept = {key: value for key, value in config.items() if key not in PACKED and key != "auto_map"}
    return {key: _plain(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _settings(library: Any, config: dict[str, Any], path: str) -> Any:
    kind = config.get("model_type")
    known = transformers("models.auto.configuration_auto").CONFIG_MAPPING
    listed = config.get("architectures")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    try:
        if isinstance(kind, str) and kind in known:
            return known[kind].from_dict(config)
        for name in names:
            found: Any = getattr(library, name, None)
            if _is_model(library, found):
                return found.config_class.from_dict({key: value for key, value in config.items() if key != "model_type"})
    except Exception as error:
        raise NoReference(f"transformers cannot read this configuration: {_first(error)}", path) from error
    said = f"model_type {kind!r}, architectures {names}"
    raise NoReference(f"transformers {library.__version__} has no class for {said}", path, hint="a newer transformers may have one")


def _class_of(library: Any, settings: Any) -> Any:
    """The class for text, else the one named in `architectures` where it takes these settings, else the one for images and text."""
    auto = transformers("models.auto.modeling_auto")
    if type(settings) in auto.MODEL_FOR_CAUSAL_LM_MAPPING:
        return auto.MODEL_FOR_CAUSAL_LM_MAPPING[type(settings)]
    for name in settings.architectures or ():
        found: Any = getattr(library, name, None)
        if _is_model(library, found) and found.config_class is type(settings):
            return found
    if type(settings) in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING[type(settings)]
    raise NoReference(f"transformers {library.__version__} has no language model for {type(settings).__name__}")


def _is_model(library: Any, found: object) -> bool:
    return inspect.isclass(found) and issubclass(found, library.PreTrainedModel)


def _first(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _fill_buffers(model: Any, device: torch.device) -> None:
    """Compute the buffers that are not stored in checkpoints, by the class's own initialisation."""
    for name, buffer in list(model.named_non_persistent_buffers()):
        owner = model.get_submodule(name.rpartition(".")[0])
        owner.register_buffer(name.rpartition(".")[2], torch.empty_like(buffer, device=device), persistent=False)
    for module in model.modules():  # parameters are without memory, so that nothing happens to them
        own = dict(module.named_buffers(recurse=False))
        if own and set(own) == module._non_persistent_buffers_set:
            model._init_weights(module)


def decoder(model: Any) -> Any:
    """The stack: the module that embeds, runs the layers and applies the last norm."""
    found = model.get_decoder()
    while not hasattr(found, "layers"):  # a language model inside a model, which calls itself its decoder
        inner = found.get_decoder() if hasattr(found, "get_decoder") else found
        found = found.model if inner is found else inner
    return found


def decoder_layers(model: Any) -> tuple[str, nn.ModuleList]:
    """Path and list of the layers of the stack."""
    layers = decoder(model).layers
    for name, module in model.named_modules():
        if module is layers:
            return name, module
    raise AssertionError("the decoder's layers are not part of the model")
