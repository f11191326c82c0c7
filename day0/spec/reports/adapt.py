"""What `day0 adapt` prints: how far the chain went."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict
from day0.spec.reports.conclusion import Conclusion


class StageRow(Strict):
    """One stage that ran."""

    stage: str = Field(description="its name")
    verdict: str = Field(description="its answer")
    yes: bool = Field(description="whether the chain could go on")
    path: str = Field(description="file of its report")
    seconds: float = Field(description="time it took, seconds")


class AdaptReport(Report):
    """The chain from the first stage to the last, or to the first that said no."""

    STAGE: ClassVar[str] = "adapt"
    COMMAND: ClassVar[str] = "day0 adapt MODEL"

    verdict: Literal["adapted", "stopped"] = Field(description="adapted: every stage said yes")
    conclusion: Conclusion = Field(description="what that means, why, and what to do")
    model: str = Field(description="name of the release")
    machine: str = Field(description="name of the machine")
    question: str = Field(description="what the model was asked")
    answer: str | None = Field(description="what it answered; null when the chain stopped before")
    stages: list[StageRow] = Field(description="stages that ran, in order")
