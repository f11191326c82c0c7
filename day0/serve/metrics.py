"""What the service counts, under the names that dashboards of this field know, with the prefix `day0:`."""

import time
from collections import Counter as Tally
from collections import deque
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from day0.spec.request import Output, Request

SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3, 0.5, 0.8, 1.5, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560, 7680)
TOKENS = tuple(step * 10**power for power in range(7) for step in (1, 2, 5))
KEPT = 10_000  # latest requests whose times are kept for percentiles


@dataclass
class Course:
    """How one request goes."""

    prompt: int  # tokens
    asked: float = field(default_factory=time.monotonic)
    last: float | None = None  # when the latest token came
    tokens: int = 0  # generated


class Metrics:
    """Counters and histograms of one service, in a registry of its own."""

    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self._labels = {"model_name": model, "engine": "0"}
        self.running = self._gauge("num_requests_running", "Requests that the engine is working on.")
        self.waiting = self._gauge("num_requests_waiting", "Requests that wait for the engine.")
        self.usage = self._gauge("kv_cache_usage_perc", "Share of state pages in use, from 0 to 1.")
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of requests that were answered.")
        self.generation_tokens = self._counter("generation_tokens", "Tokens generated.")
        self._first = self._histogram("time_to_first_token_seconds", "From request to first token.", SECONDS)
        self._between = self._histogram("inter_token_latency_seconds", "Between one token and the next.", SECONDS)
        self._whole = self._histogram("e2e_request_latency_seconds", "From request to the end of its answer.", SECONDS)
        self._prompt = self._histogram("request_prompt_tokens", "Prompt tokens of a request.", TOKENS)
        self._answer = self._histogram("request_generation_tokens", "Generated tokens of a request.", TOKENS)
        self._success = self._counter("request_success", "Requests that ended, by reason.", "finished_reason")
        self._rejected = self._counter("admission_rejections", "Requests that were turned away, by reason.", "reason")
        self.ends: Tally[str] = Tally()  # how requests ended
        self.rejected = self.read = self.generated = 0  # requests turned away; tokens of prompts that were answered; tokens generated
        self.first, self.whole = deque[float](maxlen=KEPT), deque[float](maxlen=KEPT)  # seconds of the latest requests
        self._courses: dict[str, Course] = {}

    def begin(self, request: Request) -> None:
        """A request goes to the engine."""
        self._courses[request.id] = Course(prompt=len(request.tokens))

    def news(self, output: Output) -> None:
        """The engine told something about a request."""
        course, now = self._courses.get(output.id), time.monotonic()
        if course is None:
            return
        if output.tokens:
            if course.last is None:
                self._first.observe(now - course.asked)
                self.first.append(now - course.asked)
            else:
                self._between.observe((now - course.last) / len(output.tokens))
            course.last, course.tokens = now, course.tokens + len(output.tokens)
            self.generation_tokens.inc(len(output.tokens))
            self.generated += len(output.tokens)
        if output.finish:
            self.end(output.id, output.finish)

    def end(self, id: str, why: str) -> None:
        """A request is over."""
        course = self._courses.pop(id, None)
        if course is None:
            return
        self.ends[why] += 1
        self._success.labels(**self._labels, finished_reason=why).inc()
        if why in ("stop", "length"):
            self.whole.append(time.monotonic() - course.asked)
            self._whole.observe(self.whole[-1])
            self.prompt_tokens.inc(course.prompt)
            self.read += course.prompt
            self._prompt.observe(course.prompt)
            self._answer.observe(course.tokens)

    def reject(self, reason: str) -> None:
        """A request was turned away."""
        self.rejected += 1
        self._rejected.labels(**self._labels, reason=reason).inc()

    def text(self) -> bytes:
        """The exposition format of Prometheus."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"day0:{name}", text, [*self._labels], registry=self.registry).labels(**self._labels)

    def _counter(self, name: str, text: str, *more: str) -> Counter:
        counter = Counter(f"day0:{name}", text, [*self._labels, *more], registry=self.registry)
        return counter if more else counter.labels(**self._labels)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"day0:{name}", text, [*self._labels], registry=self.registry, buckets=buckets).labels(**self._labels)
