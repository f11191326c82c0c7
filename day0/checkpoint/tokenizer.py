"""What a release says about its tokens, from its files alone: how many, the highest id, and where the chat template is."""

import json
from collections.abc import Iterator
from typing import Any

from day0.checkpoint.source import Source, whole
from day0.spec.record import record

FAST = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
OTHER = ("tiktoken.model", "tokenizer.model", "vocab.json")
LIMIT = 256 << 20  # bytes of a file that is read at all
DIGITS = 18  # of the largest token id


@record
class TokenizerFacts:
    """A tokenizer, without running it."""

    file: str  #: where its vocabulary is
    tokens: int | None  #: entries, added tokens included; None when the file is of a kind that is not read
    highest: int | None  #: highest token id that is known


def read_tokenizer(source: Source) -> TokenizerFacts | None:
    """None when the release has no tokenizer."""
    added = _json(source, SETTINGS).get("added_tokens_decoder")
    ids = {int(key) for key in added if key.isdecimal() and len(key) <= DIGITS} if isinstance(added, dict) else set()
    if source.size(FAST) is not None:
        ids |= set(_ids(_json(source, FAST)))
        return TokenizerFacts(file=FAST, tokens=len(ids), highest=max(ids, default=None))
    for name in OTHER:
        if source.size(name) is not None:
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


def templates(source: Source) -> dict[str, str]:
    """File → chat template, the one that counts first."""
    found: dict[str, str] = {}
    if (source.size(TEMPLATE) or 0) <= LIMIT and (text := whole(source, TEMPLATE, LIMIT)) is not None:
        found[TEMPLATE] = text.decode(errors="replace")
    for name in ("chat_template.json", SETTINGS):
        value = _json(source, name).get("chat_template")
        if isinstance(value, list):
            value = next((entry.get("template") for entry in value if isinstance(entry, dict) and entry.get("name") == "default"), None)
        if isinstance(value, str):
            found[name] = value
    return found


def _json(source: Source, file: str) -> dict[str, Any]:
    """The object in a file; empty when there is none: whoever uses the file says what is wrong with it."""
    try:
        data = json.loads(whole(source, file, LIMIT) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
