"""The chat template of a release: messages in, prompt text out, rendered in a sandbox."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.utils
from jinja2.sandbox import ImmutableSandboxedEnvironment

from day0.engine.generation import read_json
from day0.spec.errors import Day0Error

TOOLS = "tool_use"  # name of the template that a release with several of them means for tools


class ChatTemplate:
    """One release's template; with `tools` the one that it named for tools, if it did."""

    def __init__(self, sources: Mapping[str, str], tokens: Mapping[str, str], path: Path) -> None:
        self.sources, self.tokens, self.path = sources, tokens, path
        self._compiled: dict[str, jinja2.Template] = {}

    @classmethod
    def open(cls, folder: Path, tokens: Mapping[str, str]) -> "ChatTemplate":
        """From chat_template.jinja, or the key `chat_template` of chat_template.json or tokenizer_config.json.

        `tokens` are the special tokens that a template may name: `bos_token` and its like.
        """
        path = folder / "chat_template.jinja"
        if path.is_file():
            return cls({"default": path.read_text(encoding="utf-8")}, tokens, path)
        for path in (folder / "chat_template.json", folder / "tokenizer_config.json"):
            found = read_json(path).get("chat_template")
            if isinstance(found, str):
                return cls({"default": found}, tokens, path)
            if isinstance(found, list):
                return cls({str(entry.get("name")): str(entry.get("template")) for entry in found if isinstance(entry, dict)}, tokens, path)
        return cls({}, tokens, folder)

    def mentions(self, word: str) -> bool:
        """Whether the template's text has the word."""
        return any(word in source for source in self.sources.values())

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **names: Any) -> str:
        """The prompt; `add_generation_prompt` is True unless given. What the template refuses is an error with its own words.
        A message's key that is None counts as absent, as in transformers.
        """
        present = [{key: value for key, value in message.items() if value is not None} for message in messages]
        given = {"add_generation_prompt": True, "documents": None, **self.tokens, **names}
        try:
            return self._template(bool(tools)).render(messages=_plain(present), tools=_plain(tools), **given)
        except jinja2.TemplateError as error:
            raise Day0Error(f"the chat template refuses these messages: {error.message or error}", self.path) from None
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
            raise Day0Error(f"the chat template cannot render these messages: {error}", self.path) from None

    def _template(self, tools: bool) -> jinja2.Template:
        name = TOOLS if tools and TOOLS in self.sources else "default"
        if name not in self.sources:
            raise Day0Error("this release has no chat template", self.path, hint="continue plain text instead (/v1/completions, --prompt)")
        if name not in self._compiled:
            try:
                self._compiled[name] = environment().from_string(self.sources[name])
            except jinja2.TemplateSyntaxError as error:
                raise Day0Error(f"line {error.lineno} of the chat template: {error.message}", self.path) from None
        return self._compiled[name]


def environment() -> ImmutableSandboxedEnvironment:
    """What the templates of releases are written for: the names and filters that transformers gives them."""
    found = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Marked])
    found.filters["tojson"] = to_json
    found.globals.update(raise_exception=refuse, strftime_now=lambda pattern: datetime.now().strftime(pattern), namespace=Namespace)
    return found


class Marked(jinja2.ext.Extension):
    """`{% generation %} … {% endgeneration %}` marks the assistant's words for training; here it only shows its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Namespace(jinja2.utils.Namespace):
    """jinja's, but for attributes that reach into Python."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.sandbox.SecurityError(f"a namespace cannot hold {name!r}")
        super().__setitem__(name, value)


def to_json(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
    """JSON as it is, where jinja's own filter would escape HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message: str) -> None:
    """`raise_exception` of the templates."""
    raise jinja2.TemplateError(message)


def _plain(value: Any) -> Any:
    """A copy in plain JSON types: a template sees no object of ours and cannot change what it is given."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value
