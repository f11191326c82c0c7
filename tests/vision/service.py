"""A service with a tiny model that sees, and what a client sends it."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from PIL import Image

from day0.engine.tokenizer import Tokenizer
from day0.serve.app import create_app
from day0.serve.metrics import Metrics
from day0.serve.runner import Runner
from day0.serve.settings import Settings
from tests.engine.opened import start
from tests.serve.live import client
from tests.vision.test_towers import eye
from tests.vision.zoo import VOCAB, checkpoint

CONTEXT = 256


@contextmanager
def serving(name: str, vision: bool = True) -> Iterator[Any]:
    """An HTTP client of the named checkpoint."""
    folder = checkpoint(name)
    engine = start(folder, text=True, vision=vision, context=CONTEXT, batch=4)
    runner = Runner(lambda _hear: engine, Metrics(name))
    settings = Settings(model=name, context=CONTEXT, vocab=VOCAB, fingerprint="test")
    with client(create_app(runner, Tokenizer.open(folder), settings, eye(name) if vision else None), runner) as http:
        yield http


def encoded(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    """An image file."""
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def uri(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def picture(address: str) -> dict[str, Any]:
    """A content part."""
    return {"type": "image_url", "image_url": {"url": address}}


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def ask(http: Any, *messages: dict[str, Any], **fields: Any) -> Any:
    return http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 4, "temperature": 0, **fields})
