"""What a release says about its own quantisation; a hint, since tensors decide."""

from collections.abc import Iterator, Mapping
from typing import Any

from day0.checkpoint.config import Config
from day0.checkpoint.source import Source

SIDECAR = "hf_quant_config.json"  # written by NVIDIA ModelOpt beside config.json or instead of an entry in it
INNER = ("text_config", "llm_config", "language_config")


def stated(config: Config, source: Source) -> Mapping[str, Any]:
    """`quantization_config` of the model or of its text part, else the content of hf_quant_config.json; reading it here books no key."""
    for data in (config.data, *(config.data.get(key) for key in INNER)):
        found = data.get("quantization_config") if isinstance(data, Mapping) else None
        if isinstance(found, Mapping):
            return found
    if source.size(SIDECAR) is not None:
        found = Config.load(source, SIDECAR).data.get("quantization")
        return found if isinstance(found, Mapping) else {}
    return {}


def schemes(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What each group of a compressed-tensors configuration says of weights: `num_bits`, `symmetric`, `group_size`, `actorder`."""
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if isinstance(weights, Mapping):
            yield weights


def says(config: Mapping[str, Any], key: str) -> set[Any]:
    """All simple values of a key, at the top or in a group; a default is nobody's."""
    found = [config.get(key), *(scheme.get(key) for scheme in schemes(config))]
    return {value for value in found if isinstance(value, str | int)}
