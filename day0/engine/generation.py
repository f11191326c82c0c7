"""What a release says about generating: which tokens end an answer, and how it wants to be sampled."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from day0.spec.errors import Day0Error
from day0.spec.record import record
from day0.spec.request import Sampling

LIMIT = 64 << 20  # bytes of a JSON file that is read at all


@record
class Generation:
    """Ends and defaults, each with the file that said so."""

    eos: Mapping[int, str]  #: token that ends an answer → file and key that named it; the union of all that name one
    sampling: Sampling  #: the release's own defaults; a request overrides field by field

    @classmethod
    def open(cls, folder: Path, token_id: Mapping[str, int]) -> "Generation":
        """From generation_config.json, config.json and tokenizer_config.json; `token_id` finds an end that is given as text."""
        generation = read_json(folder / "generation_config.json")
        config = read_json(folder / "config.json")
        named = [
            ("generation_config.json", "eos_token_id", generation.get("eos_token_id")),
            ("config.json", "eos_token_id", config.get("eos_token_id")),
            ("config.json", "text_config.eos_token_id", _object(config.get("text_config")).get("eos_token_id")),
            ("tokenizer_config.json", "eos_token", read_json(folder / "tokenizer_config.json").get("eos_token")),
        ]
        eos: dict[int, str] = {}
        for file, key, value in named:
            for token in _ids(value, token_id):
                eos.setdefault(token, f"{file} {key}")
        return cls(eos=eos, sampling=_sampling(generation, folder / "generation_config.json"))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty when there is no such file."""
    if not path.is_file():
        return {}
    if path.stat().st_size > LIMIT:
        raise Day0Error(f"larger than {LIMIT >> 20} MiB", path, hint="this is not a file of a released model")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Day0Error(f"not valid JSON: {error}", path, hint="download the file again") from None
    if not isinstance(data, dict):
        raise Day0Error(f"expected a JSON object, found {type(data).__name__}", path, hint="download the file again")
    return data


def _ids(value: Any, token_id: Mapping[str, int]) -> Iterator[int]:
    """Token ids in a value that may be an id, a list of ids, or a token as text."""
    for entry in value if isinstance(value, list) else [value]:
        text = entry.get("content") if isinstance(entry, dict) else entry
        if isinstance(text, str) and text in token_id:
            yield token_id[text]
        elif isinstance(text, int) and not isinstance(text, bool) and text >= 0:
            yield text


def _sampling(generation: Mapping[str, Any], path: Path) -> Sampling:
    """Defaults of a release; greedy when it says `do_sample: false`, temperature 1 when it says nothing."""
    fields = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    given = {name: generation[name] for name in fields if generation.get(name) is not None}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Day0Error(f"{name} should be a number, found {str(value)[:60]!r}", path)
    if generation.get("do_sample") is False:
        penalty = float(given.get("repetition_penalty", 1.0))
        return Sampling(temperature=0.0, repetition_penalty=penalty)
    return Sampling(**{"temperature": 1.0, **given})


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
