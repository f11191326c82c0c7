"""What a release says about its tokens, from its files alone: how many, the highest id, and where the chat template is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from day0.spec.record import record

FAST = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
OTHER = ("tiktoken.model", "tokenizer.model", "vocab.json")
LIMIT = 256 << 20  # bytes of a file that is read at all


@record
class TokenizerFacts:
    """A tokenizer, without running it."""

    file: str  #: where its vocabulary is
    tokens: int | None  #: entries, added tokens included; None when the file is of a kind that is not read
    highest: int | None  #: highest token id that is known


def read_tokenizer(folder: Path) -> TokenizerFacts | None:
    """None when the folder has no tokenizer."""
    added = _json(folder / SETTINGS).get("added_tokens_decoder")
    ids = {int(key) for key in added if key.isdecimal()} if isinstance(added, dict) else set()
    if (folder / FAST).is_file():
        ids |= set(_ids(_json(folder / FAST)))
        return TokenizerFacts(file=FAST, tokens=len(ids), highest=max(ids, default=None))
    for name in OTHER:
        if (folder / name).is_file():
            return TokenizerFacts(file=name, tokens=None, highest=max(ids, default=None))
    return None


def _ids(data: dict[str, Any]) -> Iterator[int]:
    model = data.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        yield from (number for number in vocabulary.values() if type(number) is int)
    elif isinstance(vocabulary, list):
        yield from range(len(vocabulary))
    added = data.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and type(token.get("id")) is int:
            yield token["id"]


def templates(folder: Path) -> dict[str, str]:
    """File → chat template, the one that counts first."""
    found: dict[str, str] = {}
    path = folder / TEMPLATE
    if path.is_file() and path.stat().st_size <= LIMIT:
        found[TEMPLATE] = path.read_text(encoding="utf-8", errors="replace")
    for name in ("chat_template.json", SETTINGS):
        value = _json(folder / name).get("chat_template")
        if isinstance(value, list):
            value = next((entry.get("template") for entry in value if isinstance(entry, dict) and entry.get("name") == "default"), None)
        if isinstance(value, str):
            found[name] = value
    return found


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty when there is none: whoever uses the file says what is wrong with it."""
    try:
        data = json.loads(path.read_bytes()) if path.is_file() and path.stat().st_size <= LIMIT else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
