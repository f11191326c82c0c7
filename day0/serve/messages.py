"""Messages of a request as a chat template reads them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from day0.engine.eye import Eye, place
from day0.engine.image import read_uri
from day0.engine.text import Tokenizer
from day0.serve.errors import invalid
from day0.serve.schemas import Message
from day0.spec.errors import Day0Error
from day0.spec.picture import Picture, Placed

MOST_IMAGES = 64  # of one request
IMAGES = ("image_url", "input_image")  # types of content parts that hold an address


def prompt(
    tokenizer: Tokenizer, messages: Sequence[Message], names: Mapping[str, Any], eye: Eye | None = None
) -> tuple[list[int], tuple[Placed, ...]]:  # fmt: skip
    """Token ids of a conversation, and the images in them; `names` go to the template."""
    pictures: list[Picture] = []
    turns = [_turn(tokenizer, message, f"messages[{i}]", eye, pictures) for i, message in enumerate(messages)]
    tokens = tokenizer.encode(tokenizer.chat(turns, **names))
    if not tokens:
        raise invalid("the chat template makes an empty prompt of these messages", "messages")
    return place(tokens, pictures, eye.encoder.token) if eye else (tokens, ())


def _turn(tokenizer: Tokenizer, message: Message, where: str, eye: Eye | None, pictures: list[Picture]) -> dict[str, Any]:
    """Text parts joined unless images are among them, arguments of tool calls parsed, thoughts under the name that templates read."""
    turn = message.model_dump(exclude_none=True)
    if isinstance(message.content, list):
        turn["content"] = _content(message.content, f"{where}.content", eye, pictures)
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


def _content(parts: Sequence[Mapping[str, Any]], where: str, eye: Eye | None, pictures: list[Picture]) -> str | list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for j, part in enumerate(parts):
        if part.get("type") in IMAGES:
            pictures.append(_picture(part, f"{where}[{j}]", eye))
            found.append({"type": "image"})
        else:
            found.append({"type": "text", "text": _text(part, f"{where}[{j}]")})
        if len(pictures) > MOST_IMAGES:
            raise invalid(f"{where}[{j}]: more than {MOST_IMAGES} images in one request", where)
    return found if any(part["type"] == "image" for part in found) else "".join(part["text"] for part in found)


def _picture(part: Mapping[str, Any], where: str, eye: Eye | None) -> Picture:
    """The image of a part: `{"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}`."""
    if eye is None:
        raise invalid(f"{where}: this server takes no images", where)
    given = part.get("image_url")
    uri = given.get("url") if isinstance(given, Mapping) else given
    if not isinstance(uri, str):
        raise invalid(f"{where}: an image part needs image_url.url", where)
    try:
        return eye.read(read_uri(uri, where), where)
    except Day0Error as error:
        raise invalid(f"{where}: {error.problem}" + (f" ({error.hint})" if error.hint else ""), where) from None


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
