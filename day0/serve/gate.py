"""What every HTTP request passes first: its id, its key, and the size of its body. Pure ASGI, so that a closed connection is seen."""

import hashlib
import hmac
import re
import uuid
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from day0.serve.errors import ApiError

OPEN = frozenset({"/health", "/metrics"})  # need no key: probes and scrapers have none
GOOD_ID = re.compile(r"[\x21-\x7e]{1,128}")


class Gate:
    """Echoes X-Request-Id (or makes one), asks for a key where there are keys, and refuses bodies beyond a size."""

    def __init__(self, app: ASGIApp, *, keys: Sequence[str] = (), max_body: int) -> None:
        self.app, self.max_body = app, max_body
        self._digests = [_digest(key) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        send = _stamped(send, headers.get("x-request-id", ""))
        try:
            if scope["path"] not in OPEN and not self._knows(headers):
                hint = "send it as `Authorization: Bearer KEY` or `x-api-key: KEY`"
                raise ApiError(401, f"no valid API key; {hint}", code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
            receive = await self._whole(headers, receive)
        except ApiError as error:
            await error.response()(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _knows(self, headers: Headers) -> bool:
        """Whether a key is one of ours; takes the same time whichever it is."""
        if not self._digests:
            return True
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = [headers.get("x-api-key", ""), token.strip() if scheme.lower() == "bearer" else ""]
        return any([hmac.compare_digest(_digest(one), digest) for one in given if one for digest in self._digests])  # noqa: C419

    async def _whole(self, headers: Headers, receive: Receive) -> Receive:
        """Read the body, however it comes, and hand it on in one piece."""
        too_large = ApiError(413, f"the body is larger than {self.max_body} bytes", code="body_too_large", headers={"Connection": "close"})
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > self.max_body:
            raise too_large
        body, message = bytearray(), await receive()
        while message["type"] == "http.request":
            body += message.get("body", b"")
            if len(body) > self.max_body:
                raise too_large
            if not message.get("more_body"):
                break
            message = await receive()
        first: list[Message] = [message if message["type"] != "http.request" else {**message, "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return first.pop() if first else await receive()

        return replay


def _stamped(send: Send, given: str) -> Send:
    """Answers carry the request's id."""
    identity = given if GOOD_ID.fullmatch(given) else uuid.uuid4().hex

    async def stamp(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Request-Id"] = identity
        await send(message)

    return stamp


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
