"""Answering while the client is there: whole answers and event streams, both given up when the connection closes."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from day0.serve.answer import Answer
from day0.serve.errors import ApiError, json_bytes

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
CLOSED = 499  # the client closed the connection; nobody reads this


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client goes."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_closed(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(CLOSED, "the client closed the connection")
        return task.result()
    finally:
        await _end(task, gone)


class EventStream(Response):
    """Server-sent events; what goes wrong on the way is an event too, and the last one is `[DONE]`."""

    media_type = "text/event-stream"

    def __init__(self, answer: Answer, events: AsyncIterator[Mapping[str, Any] | None]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.answer, self.events = answer, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task, gone = asyncio.ensure_future(self._send(send)), asyncio.ensure_future(_closed(receive))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            await _end(task, gone)
            self.answer.close()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for event in self.events:
                body = KEEP_ALIVE if event is None else b"data: " + json_bytes(event) + b"\n\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})
        except ApiError as error:
            body = b"data: " + json.dumps(error.body()).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": DONE, "more_body": False})


async def _closed(receive: Receive) -> None:
    """Returns when the connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
