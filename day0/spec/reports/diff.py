"""What `day0 diff` prints: how one release differs from another, by their inspect reports."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict

Value = str | int | float | bool | None


class ChangeRow(Strict):
    """One thing that is different."""

    part: str = Field(description="part of the inspect report: model, parameters, bytes, layers, config, files, findings, …")
    key: str = Field(description="dotted path within that part; for layers, which ones and which field")
    before: Value = Field(description="in the first release; null where it has no such thing")
    after: Value = Field(description="in the second; null where it has no such thing")


class DiffReport(Report):
    """Differences between two releases; where they lie and what they are called is none."""

    STAGE: ClassVar[str] = "diff"
    COMMAND: ClassVar[str] = "day0 diff A B"

    verdict: Literal["same", "different"] = Field(description="same when there is no change")
    before: str = Field(description="the first release: name")
    after: str = Field(description="the second release: name")
    weights_compared: bool = Field(description="whether both reports have digests of whole weight files; otherwise weights may differ")
    changes: list[ChangeRow] = Field(description="by part, in the order of the inspect report")
