"""What `day0 score` prints: how likely a model finds given tokens."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict


class SequenceRow(Strict):
    """One sequence."""

    tokens: int = Field(description="its length")
    loss: float | None = Field(description="mean negative log-probability of each token after the first, nats; null for a single token")


class ScoreReport(Report):
    """Logits of given tokens, summed up."""

    STAGE: ClassVar[str] = "score"
    COMMAND: ClassVar[str] = "day0 score MODEL"

    model: str = Field(description="name of the release")
    executor: Literal["native", "community"] = Field(description="whose code ran: day0's engine, or the class of transformers")
    device: str = Field(description="what it ran on")
    dtype: str = Field(description="type that was computed in")
    chunk: int | None = Field(description="tokens of a sequence that were read at a time; null when all at once")
    decode_from: int | None = Field(description="place from which tokens were read one by one; null when none were")
    out: str | None = Field(description="file with logits.<i>, float32 [tokens, vocabulary]; null when none was asked for")
    sequences: list[SequenceRow] = Field(description="one for each given sequence, or each window of a text")
    perplexity: float | None = Field(description="exponential of the mean loss of all scored tokens; null when that is no number")
    seconds: float = Field(description="time of the passes, without loading, seconds")
