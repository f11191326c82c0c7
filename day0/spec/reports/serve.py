"""What `day0 serve` leaves: where it listened, what it was ready for, and what it answered."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict
from day0.spec.reports.run import Memory, SamplingRow


class End(Strict):
    """A token that ends an answer."""

    token: int = Field(description="its id")
    text: str = Field(description="how it is written")
    source: str = Field(description="file and key that named it")


class Limits(Strict):
    """What the service takes."""

    context: int = Field(description="tokens of a sequence, prompt and answer together")
    batch: int = Field(description="sequences that run at once")
    requests: int = Field(description="sequences that run or wait; more are turned away with 503")
    body: int = Field(description="size of a request's body, bytes")


class Requests(Strict):
    """How sequences ended."""

    stop: int = Field(description="at a stop token or text")
    length: int = Field(description="at the number of tokens that was asked for, or that the plan has room for")
    cancelled: int = Field(description="because the client went away")
    error: int = Field(description="with an error")


class Latency(Strict):
    """Times of the latest sequences that were answered; null without any."""

    p50: float | None = Field(description="median, seconds")
    p95: float | None = Field(description="95th percentile, seconds")


class ServeReport(Report):
    """A service on a model: written when it is ready, and again when it ends."""

    STAGE: ClassVar[str] = "serve"
    COMMAND: ClassVar[str] = "day0 serve"

    verdict: Literal["serves", "failed"] = Field(description="serves: it was ready and its engine did not fail")
    failure: str = Field(description="what made the engine fail; empty when it did not")
    model: str = Field(description="name of the model that clients ask for")
    machine: str = Field(description="name of the machine that was planned for")
    executor: Literal["native", "community"] = Field(description="whose code ran: day0's engine, or the class of transformers")
    device: str = Field(description="what it ran on")
    dtype: str = Field(description="type that was computed in")
    weights: str = Field(description="resident: kept in memory; streamed: read layer by layer")
    url: str = Field(description="where it listened")
    fingerprint: str = Field(description="system_fingerprint of its answers: version, and digest of plan and map")
    guarded: bool = Field(description="whether clients need a key")
    limits: Limits = Field(description="what the service takes")
    ends: list[End] = Field(description="tokens that end an answer, unless a request ignores them")
    defaults: SamplingRow = Field(description="sampling where a request says nothing: the release's own")
    load: float = Field(description="reading the weights and getting ready, seconds")
    uptime: float = Field(description="since it was ready, seconds")
    requests: Requests = Field(description="how sequences ended")
    rejected: int = Field(description="requests that were turned away because there were enough")
    prompt_tokens: int = Field(description="tokens of prompts that were answered")
    generated_tokens: int = Field(description="tokens that were generated")
    first_token: Latency = Field(description="from the request to its first token")
    answer: Latency = Field(description="from the request to the end of its answer")
    memory: Memory = Field(description="how much it took")
