"""The engine's outputs for one HTTP request, which may be several sequences."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from day0.serve.errors import ApiError
from day0.spec.request import Finish, Output, Request, TokenScore


@dataclass
class Sequel:
    """All that came for one sequence."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    scores: list[TokenScore] = field(default_factory=list)
    prompt_scores: list[TokenScore] = field(default_factory=list)
    finish: Finish | None = None

    def add(self, output: Output) -> None:
        """One more piece."""
        self.text += output.text
        self.tokens += output.tokens
        self.scores += output.scores
        self.prompt_scores += output.prompt_scores
        self.finish = output.finish or self.finish


class Answer:
    """Filled by the runner, read by one handler. Closing it tells the engine to stop what is not finished."""

    def __init__(self, requests: Sequence[Request], cancel: Callable[[Sequence[str]], None]) -> None:
        self.sequels = {request.id: Sequel() for request in requests}  # what was read so far, in the order of the requests
        self._open = set(self.sequels)
        self._left = len(requests)  # sequences whose end has not been read
        self._cancel = cancel
        self._queue: asyncio.Queue[Output | ApiError] = asyncio.Queue()
        self._first: Output | None = None

    def put(self, output: Output) -> None:
        """One more piece."""
        if output.finish:
            self._open.discard(output.id)
        failed = output.finish in ("error", "cancelled")
        self._queue.put_nowait(ApiError(500, output.error or "the engine gave up this request") if failed else output)

    def fail(self, error: ApiError) -> None:
        """There will be no more."""
        self._queue.put_nowait(error)

    async def begin(self, seconds: float) -> None:
        """Wait a while for the first piece, so that what fails at once is an HTTP error and not a stream."""
        try:
            self._first = await asyncio.wait_for(self._next(), seconds)
        except TimeoutError:
            return

    async def pieces(self, seconds: float | None = None) -> AsyncIterator[Output | None]:
        """Every output; None after each so many seconds of silence. Raises ApiError when the engine fails."""
        while self._left:
            output, self._first = self._first, None
            if output is None:
                try:
                    output = await asyncio.wait_for(self._next(), seconds)
                except TimeoutError:
                    yield None
                    continue
            self._left -= output.finish is not None
            self.sequels[output.id].add(output)
            yield output

    async def whole(self) -> list[Sequel]:
        """All of it."""
        async for _ in self.pieces():
            pass
        return list(self.sequels.values())

    def close(self) -> None:
        """Cancel what is still open."""
        left, self._open = sorted(self._open), set()
        self._cancel(left)

    async def _next(self) -> Output:
        found = await self._queue.get()
        if isinstance(found, ApiError):
            raise found
        return found
