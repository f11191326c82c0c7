"""One request that went wrong, with all that is needed to answer it again: a replay bundle."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.reports.run import SamplingRow


class ChosenRow(Strict):
    """One token and the circumstances of its choice."""

    place: int = Field(description="in the answer, from 0")
    step: int = Field(description="forward pass of the engine, from 1")
    top: list[tuple[int, float]] = Field(description="best tokens with their logits before sampling, best first, where finite")
    margin: float | None = Field(description="logit of the best token less that of the second; null where they are not finite")
    batch: list[int] = Field(description="serial numbers of the requests in that pass")
    experts: list[list[int]] = Field(description="chosen for the token's position, one list for each sparse layer in order")


class RequestRow(Strict):
    """One request as the engine was given it, and what became of it."""

    serial: int = Field(description="its number among the engine's requests")
    arrived: int = Field(description="forward passes that the engine had made when it came")
    prompt: list[int] | None = Field(description="token ids; null for a prompt that was too long to be kept")
    prompt_sha256: str = Field(description="digest of the token ids, as decimal numbers with commas")
    prompt_tokens: int = Field(description="length of the prompt")
    images: int = Field(description="images in the prompt, which are not kept")
    max_new: int = Field(description="tokens wanted at the most")
    min_new: int = Field(description="tokens before which no stop token was chosen")
    stop: list[str] = Field(description="strings that end the answer")
    stop_tokens: list[int] = Field(description="token ids that end the answer")
    sampling: SamplingRow = Field(description="how tokens were chosen, with the seed that was used")
    logit_bias: list[tuple[int, float]] = Field(description="token ids and what was added to their logits")
    tokens: list[int] = Field(description="answer")
    chosen: list[ChosenRow] = Field(description="circumstances of its last tokens")
    finish: Literal["stop", "length", "cancelled", "error"] | None = Field(description="why it ended; null while it goes on")
    error: str = Field(description="what went wrong, where finish is error")


class IncidentReport(Report):
    """A request, those that were in flight with it, and the plan and map they ran by."""

    STAGE: ClassVar[str] = "incident"
    COMMAND: ClassVar[str] = "day0 run --record DIR"

    reason: str = Field(description="why this was written")
    subject: int = Field(description="serial number of the request that it is about")
    model: str = Field(description="name of the model")
    dtype: str = Field(description="type it computed in")
    weights: Literal["resident", "streamed"] = Field(description="how weights were held")
    requests: list[RequestRow] = Field(description="in the order in which they came")
    plan: PlanMemoryReport = Field(description="as it was obeyed")
    mapped: MapOpsReport = Field(description="as it was obeyed")
