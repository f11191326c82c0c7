"""What became of an incident when it was answered again."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict

Kind = Literal["numeric fault", "batch-dependent", "near-tie flip", "engine failure", "not reproduced", "reproduced"]


class FaultRow(Strict):
    """The first operator call whose result was not finite."""

    layer: int | None = Field(description="index in the stack; null outside it")
    place: str = Field(description='"mixer", "ffn", "residual"; empty outside the stack')
    phase: str = Field(description="prefill or decode")
    op: str = Field(description="operator")
    given: bool = Field(description="whether one of its arguments, a weight or state, was broken already")


class ReplayReport(Report):
    """One verdict about one incident."""

    STAGE: ClassVar[str] = "replay"
    COMMAND: ClassVar[str] = "day0 replay"

    verdict: Kind = Field(description="reproduced: the same answer alone and in company, and no operator broke; engine failure: it ended so again")
    line: str = Field(description="the same in one line")
    model: str = Field(description="name of the model")
    reason: str = Field(description="why the bundle was written")
    neighbours: int = Field(description="requests that were in flight with it and were answered again with it")
    recorded: list[int] = Field(description="tokens of the answer on record")
    alone: list[int] = Field(description="tokens when it was answered alone")
    together: list[int] = Field(description="tokens when it was answered in the recorded company")
    place: int | None = Field(description="first token of the answer that came out differently; null for none")
    margin: float | None = Field(description="recorded distance of the best logit from the second at that place")
    moved: float | None = Field(description="largest change of the recorded best logits at that place")
    explained: float | None = Field(description="change that rounding explains there")
    fault: FaultRow | None = Field(description="where numbers broke first; null where none did")
