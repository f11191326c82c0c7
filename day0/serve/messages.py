"""Messages of a request as a chat template reads them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from day0.engine.text import Tokenizer
from day0.serve.errors import invalid
from day0.serve.schemas import Message


def prompt(tokenizer: Tokenizer, messages: Sequence[Message], names: Mapping[str, Any]) -> list[int]:
    """Token ids of a conversation; `names` go to the template."""
    tokens = tokenizer.encode(tokenizer.chat([_turn(tokenizer, message, i) for i, message in enumerate(messages)], **names))
    if not tokens:
        raise invalid("the chat template makes an empty prompt of these messages", "messages")
    return tokens


def _turn(tokenizer: Tokenizer, message: Message, place: int) -> dict[str, Any]:
    """Text parts joined, arguments of tool calls parsed, thoughts under the name that templates read."""
    turn = message.model_dump(exclude_none=True)
    where = f"messages[{place}]"
    if isinstance(message.content, list):
        turn["content"] = "".join(_text(part, f"{where}.content[{j}]") for j, part in enumerate(message.content))
    elif message.content is None:
        if message.role != "assistant":
            raise invalid(f"{where}: a {message.role} message needs content", f"{where}.content")
        turn["content"] = ""
    if message.role == "developer" and not tokenizer.template.mentions("developer"):
        turn["role"] = "system"
    if "reasoning" in turn:
        turn.setdefault("reasoning_content", turn["reasoning"])
    if isinstance(turn.get("tool_calls"), list):
        turn["tool_calls"] = [_call(call) for call in turn["tool_calls"]]
    return turn


def _text(part: Mapping[str, Any], where: str) -> str:
    if part.get("type") != "text":
        raise invalid(f"{where}: content of type {str(part.get('type'))[:40]!r} is not supported by this server", where)
    if not isinstance(part.get("text"), str):
        raise invalid(f"{where}: a text part needs text", where)
    return part["text"]


def _call(call: Any) -> Any:
    """Templates want the arguments as an object; text that is none is passed as it is."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call
