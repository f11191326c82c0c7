"""What a configuration key that nobody reads is likely to change, by its name and value alone: a guess, and called one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HARMLESS = re.compile(
    r"(^_|version|^model_type$|auto_map|architectures|_token_id|_token_index|token_ids$|use_cache|^output_|^return_|name_or_path|dtype|id2label|label2id"
    r"|tokenizer|generation|^max_length|^top_[pk]$|^temperature|placeholder|image_size|^ignore_index|producer|comment|license)"
)
TRAINING = re.compile(r"(dropout|drop_rate|loss|aux|initializer|init_std|init_range|gradient|optimi[sz]er|jitter|learning|train|^ep_size)")
SHAPES = re.compile(
    r"(^n_|^num_|_num_|size|dim|rank|width|heads|layers|experts|channels|kernel|extent|^d_|_d$|groups|depth|taps|_count|streams|mult$|blocks?$"
    r"|layer_ids|layer_types|pattern|bias$)"
)


def guess(key: str, value: Any) -> str:
    """ "harmless", "training only", "changes shapes" or "changes arithmetic"; an absent or false value changes nothing."""
    leaf = key.rpartition(".")[2].lower()
    if value is None or value is False or value == {} or value == []:
        return "harmless: it is off"
    if HARMLESS.search(leaf):
        return "harmless"
    if TRAINING.search(leaf):
        return "training only"
    if leaf.startswith(("vision", "audio", "image", "video", "mm_", "projector")):
        return "another modality"
    return "changes shapes" if SHAPES.search(leaf) else "changes arithmetic"


def guesses(keys: Iterable[str], data: Mapping[str, Any]) -> dict[str, str]:
    """Dotted key → what it is likely to change."""
    return {key: guess(key, value_at(data, key)) for key in keys}


def leaves(data: Mapping[str, Any], prefix: str = "", depth: int = 3) -> Iterator[str]:
    """Dotted keys of simple values and lists; objects below `depth`, and what says how weights are packed, count as one."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value and depth > 1 and "quant" not in key:
            yield from leaves(value, f"{prefix}{key}.", depth - 1)
        else:
            yield prefix + key


def value_at(data: Mapping[str, Any], key: str) -> Any:
    """Of a dotted key; None where it is absent. A key may itself hold dots."""
    value: Any = data
    for part in (key,) if key in data else key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
