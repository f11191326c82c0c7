"""A release's configuration: every value is read through a method that remembers who asked for it."""

import builtins
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import accumulate
from typing import Any, TypeVar

from day0.checkpoint.pointer import PULL, UNFETCHED, is_pointer
from day0.checkpoint.source import Source, whole
from day0.spec.errors import Day0Error

REQUIRED: Any = object()
T = TypeVar("T")
LIMIT = 64 << 20  # bytes of a config.json that is read at all


class Config:
    """One JSON object; `sub` opens a nested one that reports to the same book of keys.

    A default is the release's own: what its code does when the key is absent.
    """

    def __init__(self, data: Mapping[str, Any], path: str = "config.json", prefix: str = "", read: dict[str, str] | None = None) -> None:
        self.data, self.path, self.prefix = data, path, prefix
        self.read_keys: dict[str, str] = {} if read is None else read  # dotted key → module that read it

    @classmethod
    def load(cls, source: Source, file: builtins.str = "config.json") -> "Config":
        """Parse a file; `Infinity` and `NaN` literals, which some releases contain, are accepted."""
        path = source.path(file)
        try:
            text = whole(source, file, LIMIT)
        except ValueError as error:
            raise Day0Error(builtins.str(error), path, hint="this is not a model configuration") from None
        if text is None:
            cache = "give a folder below its snapshots/" if "snapshots" in source.names() else "is this the folder of a released model?"
            raise Day0Error(f"there is no {file}", path, hint=cache)
        if is_pointer(text):
            raise Day0Error(UNFETCHED, path, hint=PULL)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Day0Error(f"not valid JSON: {error}", path, hint="download the file again") from None
        if not isinstance(data, dict):
            raise Day0Error(f"expected a JSON object, found {type(data).__name__}", path, hint="download the file again")
        return cls(data, path)

    def __contains__(self, key: builtins.str) -> bool:
        return self.data.get(key) is not None

    def int(self, key: builtins.str, default: Any = REQUIRED) -> Any:
        """A whole number; a float without a fraction counts."""
        return self._value(key, default, int, lambda v: int(v) if isinstance(v, float) and v.is_integer() else v)

    def float(self, key: builtins.str, default: Any = REQUIRED) -> Any:
        """A number."""
        return self._value(key, default, float, lambda v: float(v) if isinstance(v, int) and not isinstance(v, bool) else v)

    def bool(self, key: builtins.str, default: Any = REQUIRED) -> Any:
        """True or false."""
        return self._value(key, default, bool, lambda v: v)

    def str(self, key: builtins.str, default: Any = REQUIRED) -> Any:
        """A string."""
        return self._value(key, default, str, lambda v: v)

    def list(self, key: builtins.str, default: Any = REQUIRED) -> Any:
        """A list."""
        return self._value(key, default, list, lambda v: v)

    def any(self, key: builtins.str, default: Any = REQUIRED) -> Any:
        """A value of whatever type is there."""
        return self._value(key, default, object, lambda v: v)

    def sub(self, key: builtins.str) -> "Config":
        """The nested object under `key`, empty when absent."""
        value = self._value(key, {}, dict, lambda v: v)
        return Config(value, self.path, f"{self.prefix}{key}.", self.read_keys)

    def first(self, *keys: builtins.str) -> builtins.str:
        """The first of several spellings of one key that is present; the last one when none is."""
        return next((key for key in keys if key in self), keys[-1])

    def spelled(self, **words: builtins.str) -> "Config":
        """The same for a reader that knows keys by other words: `spelled(known="own")` gives the value of `own` where `known` is asked for."""
        own = {known: self.data[key] for known, key in words.items() if key in self.data}
        self.book(words.values(), _reader())
        return Config({**self.data, **own}, self.path, self.prefix, self.read_keys)

    def book(self, keys: Iterable[builtins.str], reader: builtins.str) -> None:
        """Count keys as read by `reader` where they are present."""
        for key in keys:
            if key in self.data:
                self.read_keys.setdefault(self.prefix + key, reader)

    def unread(self) -> tuple[builtins.str, ...]:
        """Dotted keys that nobody read; a nested object that nobody opened counts once."""
        opened = {prefix for read in self.read_keys if "." in read for prefix in accumulate(read.split(".")[:-1], "{}.{}".format)}
        return tuple(self._unread(self.data, self.prefix, opened))

    def _unread(self, data: Mapping[builtins.str, Any], prefix: builtins.str, opened: Set[builtins.str]) -> Iterator[builtins.str]:
        for key, value in data.items():
            name = prefix + key
            if isinstance(value, dict) and name in opened:
                yield from self._unread(value, name + ".", opened)
            elif name not in self.read_keys:
                yield name

    def _value(self, key: builtins.str, default: Any, kind: type, widen: Any) -> Any:
        self.read_keys.setdefault(self.prefix + key, _reader())
        value = self.data.get(key)
        if value is None:
            if default is REQUIRED:
                raise Day0Error(f"key {self.prefix}{key} is missing", self.path, hint="this family cannot be read without it")
            return default
        try:
            value = widen(value)
        except OverflowError:
            raise Day0Error(f"{self.prefix}{key} is larger than any number can be: {str(value)[:20]}…", self.path) from None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", list: "a list", dict: "an object"}
            raise Day0Error(f"{self.prefix}{key} should be {wanted[kind]}, found {str(value)[:60]!r}", self.path)
        return value


def _reader() -> str:
    """Module outside this file that asked, such as `families.deepseek_v3`."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") == __name__ and frame.f_back:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).removeprefix("day0.")
