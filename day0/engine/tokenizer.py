"""Text to token ids and back, by the files of a release."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from day0.engine.generation import Generation, read_json
from day0.engine.template import ChatTemplate
from day0.spec.errors import Day0Error

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # how a byte-fallback vocabulary spells one byte


class Tokenizer:
    """The tokenizer of a release (tokenizer.json), its chat template, its ends and its sampling defaults."""

    def __init__(self, inner: tokenizers.Tokenizer, folder: Path) -> None:
        self.inner, self.folder = inner, folder
        added = inner.get_added_tokens_decoder()
        self.special = frozenset(token for token, entry in added.items() if entry.special)
        self.tokens = _named(read_json(folder / "special_tokens_map.json") | read_json(folder / "tokenizer_config.json"))
        self.template = ChatTemplate.open(folder, self.tokens)
        vocabulary = {entry.content: token for token, entry in added.items()}
        self.generation = Generation.open(folder, vocabulary)
        self._bytes = _byte_alphabet() if _byte_level(inner) else None

    @classmethod
    def open(cls, folder: Path) -> "Tokenizer":
        """Read tokenizer.json; without torch and without transformers."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            other = next((name for name in ("tiktoken.model", "tokenizer.model", "tekken.json") if (folder / name).is_file()), None)
            hint = f"the release has {other}; convert it to tokenizer.json first" if other else "download it from the release"
            raise Day0Error("there is no tokenizer.json", path, hint=hint)
        try:
            inner = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise Day0Error(f"not a tokenizer: {error}", path, hint="download the file again") from None
        inner.no_truncation()
        inner.no_padding()
        return cls(inner, folder)

    @property
    def eos(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return frozenset(self.generation.eos)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Token ids; `special` adds what tokenizer.json puts around a text (often a first token)."""
        try:
            return self.inner.encode(text, add_special_tokens=special).ids
        except (TypeError, UnicodeEncodeError):
            raise Day0Error("the text holds half a surrogate pair, which is no character", hint="send valid Unicode") from None

    def id(self, text: str) -> int:
        """The token that is spelled so."""
        found: int | None = self.inner.token_to_id(text)
        if found is None:
            raise Day0Error(f"the tokenizer has no token {text}", self.folder, hint="images of this model are marked by it")
        return found

    def decode(self, tokens: Iterable[int], special: bool = False) -> str:
        """Text of token ids, special tokens left out unless `special`; what is not UTF-8 becomes U+FFFD."""
        return self.inner.decode(list(tokens), skip_special_tokens=not special)

    def chat(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **names: Any) -> str:
        """The prompt text of a conversation, to be encoded without added special tokens (see ChatTemplate.render)."""
        return self.template.render(messages, tools, **names)

    def piece(self, token: int) -> bytes:
        """The bytes that one token stands for, which may be a part of a character; empty for an id without a token."""
        text = self.inner.id_to_token(token)
        if text is None:
            return b""
        byte = BYTE.fullmatch(text)
        if byte:
            return bytes([int(byte[1], 16)])
        if self._bytes is not None and token not in self.special and all(character in self._bytes for character in text):
            return bytes(self._bytes[character] for character in text)
        return text.replace("▁", " ").encode()


def _named(config: Mapping[str, Any]) -> dict[str, str]:
    """Special tokens by the names that templates use."""
    found = {}
    for name in NAMED:
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


def _byte_level(inner: tokenizers.Tokenizer) -> bool:
    """Whether tokens are spelled in the printable alphabet of GPT-2, one character a byte."""
    return "ByteLevel" in repr(inner.decoder)


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's character for each byte: printable ones stand for themselves, the rest for U+0100 and on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
