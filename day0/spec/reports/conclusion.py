"""What the reports of a chain come to."""

from typing import Literal

from pydantic import Field

from day0.spec.reports.base import Strict

Answer = Literal["works", "works with fallbacks", "not shown to work", "does not work"]


class Conclusion(Strict):
    """One word, why, and what to do."""

    answer: Answer = Field(
        description="works with fallbacks: right, but not all of it by what was made for this machine; "
        "not shown to work: nothing is known to be wrong, and not every question is answered"
    )
    stage: str | None = Field(description="the first stage that did not say yes, or has not run; null when there is none")
    reasons: list[str] = Field(description="why, each in a sentence; empty when it simply works")
    remedies: list[str] = Field(description="what to do, each in a sentence")
