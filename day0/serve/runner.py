"""One thread that owns the engine, and what the asynchronous side of the service sees of it."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from day0.serve.answer import Answer
from day0.serve.errors import ApiError, invalid, unavailable
from day0.serve.metrics import Metrics
from day0.spec.errors import Day0Error
from day0.spec.progress import Progress
from day0.spec.request import Output, Request

State = Literal["starting", "ready", "draining", "failed", "stopped"]
PATIENCE = 60.0  # seconds that closing waits for the step that is being made
log = logging.getLogger("day0.serve")


class Engine(Protocol):
    """What answers requests; driven by one thread."""

    @property
    def busy(self) -> bool: ...
    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def usage(self) -> float: ...
    def add(self, request: Request) -> None: ...
    def cancel(self, id: str) -> None: ...
    def step(self) -> Sequence[Output]: ...
    def account(self) -> dict[str, int]: ...


class Runner:
    """Opens the engine and steps it while there is work; requests go in and outputs come out by id."""

    def __init__(self, start: Callable[[Progress], Engine], metrics: Metrics, *, max_requests: int = 512) -> None:
        self.metrics, self.max_requests = metrics, max_requests
        self.state: State = "starting"
        self.phase, self.progress = "start", 0.0  # what the engine does while it starts, and how much of that is done
        self.failure: Exception | None = None  # why the state is "failed"
        self.engine: Engine | None = None
        self.changed: Callable[[State], None] = lambda _state: None  # called, on the runner's thread, when the engine is ready or failed
        self._start = start
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answers: dict[str, Answer] = {}  # request → who waits for it
        self._wake, self._closing = threading.Condition(), False
        self._added: list[Request] = []
        self._cancelled: list[str] = []
        self._live: set[str] = set()  # what the engine is working on; the thread's own
        self._thread = threading.Thread(target=self._work, name="day0-engine", daemon=True)

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; outputs are delivered on `loop`."""
        self._loop = loop
        self._thread.start()

    def submit(self, requests: Sequence[Request]) -> Answer:
        """Hand requests to the engine; 503 when it is not ready or has enough to do."""
        self.require_ready()
        if len(requests) > self.max_requests:
            raise invalid(f"{len(requests)} sequences in one request; this server takes {self.max_requests} at once")
        if len(self._answers) + len(requests) > self.max_requests:
            self.metrics.reject("queue_full")
            raise unavailable(f"the server has {len(self._answers)} requests to answer; try again later", "queue_full")
        answer = Answer(requests, self.cancel)
        for request in requests:
            self._answers[request.id] = answer
            self.metrics.begin(request)
        self._order(add=requests)
        return answer

    def require_ready(self) -> None:
        """503 with the reason unless requests can be answered."""
        if self.state == "starting":
            raise unavailable(f"the model is being loaded: {self.phase}", "starting", seconds=5)
        if self.state == "failed":
            raise unavailable("the engine has failed; the service needs to be restarted", "engine_failed", seconds=30)
        if self.state != "ready":
            raise unavailable("the server is shutting down", "shutting_down", seconds=30)

    def cancel(self, ids: Sequence[str]) -> None:
        """Nobody waits for these any more."""
        gone = [id for id in ids if self._answers.pop(id, None)]
        for id in gone:
            self.metrics.end(id, "cancelled")
        self._order(cancel=gone)

    def drain(self) -> None:
        """Take nothing new; what is being answered goes on."""
        if self.state in ("starting", "ready"):
            self.state = "draining"

    def close(self) -> None:
        """Stop after the step that is being made; what is still being answered ends with an error."""
        self.drain()
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        self._call(self._end_all, unavailable("the server is shutting down", "shutting_down"))

    def snapshot(self) -> None:
        """Bring the gauges up to date."""
        if self.engine is not None:
            self.metrics.running.set(self.engine.running)
            self.metrics.waiting.set(self.engine.waiting)
            self.metrics.usage.set(self.engine.usage)

    def _order(self, add: Sequence[Request] = (), cancel: Sequence[str] = ()) -> None:
        with self._wake:
            self._added += add
            self._cancelled += cancel
            self._wake.notify()

    def _work(self) -> None:
        """The thread: start the engine, then take orders and make steps until closing."""
        try:
            self.engine = self._start(self._hear)
            if self.state == "starting":
                self.state = "ready"
            self.changed(self.state)
            while self._take_orders():
                self._deliver(self.engine.step())
            self.state = "stopped"
        except Exception as error:
            self.failure, self.state = error, "failed"
            if not isinstance(error, Day0Error):
                log.exception("the engine failed")
            self._call(self._end_all, ApiError(500, "the engine failed while it was answering; the server's log says more"))
            self.changed("failed")

    def _take_orders(self) -> bool:
        """Wait for work, pass on what was ordered; False when closing."""
        assert self.engine is not None
        with self._wake:
            while not (self._closing or self._added or self._cancelled or self.engine.busy):
                self._wake.wait()
            added, cancelled, self._added, self._cancelled = self._added, set(self._cancelled), [], []
        for request in added:
            try:
                self.engine.add(request)
                self._live.add(request.id)
            except Day0Error as error:
                self._call(self._refuse, request.id, invalid(error.problem))
        for id in self._live & cancelled:
            self.engine.cancel(id)
        self._live -= cancelled
        return not self._closing

    def _hear(self, what: str, done: int, total: int) -> None:
        if self._closing:
            raise Day0Error(f"interrupted while the model was being loaded ({what})")
        self.phase, self.progress = what, done / total if total else 0.0

    def _deliver(self, outputs: Sequence[Output]) -> None:
        self._live -= {output.id for output in outputs if output.finish}
        if outputs:
            self._call(self._dispatch, outputs)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        """Run on the loop, unless that has ended."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _dispatch(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            answer = self._answers.get(output.id)
            if answer is None:
                continue
            self.metrics.news(output)
            if output.finish:
                del self._answers[output.id]
            answer.put(output)

    def _refuse(self, id: str, error: ApiError) -> None:
        answer = self._answers.pop(id, None)
        self.metrics.end(id, "error")
        if answer is not None:
            answer.fail(error)

    def _end_all(self, error: ApiError) -> None:
        for id in list(self._answers):
            self._refuse(id, error)
