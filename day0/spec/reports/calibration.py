"""Sections of a plan that compare it: with what a real engine said, and with other workloads."""

from typing import Literal

from pydantic import Field

from day0.spec.reports.base import Strict


class Residual(Strict):
    """One pool as it was planned and as an engine measured it."""

    pool: str = Field(description='"weights", "activations", "runtime", "graphs", "room for state" or "tokens"')
    unit: Literal["bytes", "tokens"] = Field(description="of both figures")
    planned: int | None = Field(description="on the fullest card; tokens: of all cards together; null for what is a part of the margin")
    measured: int = Field(description="as the log says")
    share: float | None = Field(description="measured less planned, by measured; null where there is no such figure")
    line: int = Field(description="of the log, from 1")


class Variant(Strict):
    """The same model on the same kind of card under another workload."""

    change: str = Field(description='what was changed, as it was asked for: "context=131072,cards=16"')
    verdict: Literal["fits", "does not fit", "refused"] = Field(description="as that of a plan")
    cards: int = Field(description="as those of a plan")
    placement: str = Field(description="how the model is cut, in words")
    free: int = Field(description="on the fullest card, bytes; negative is the shortage")
    max_context: int = Field(description="longest context at batch 1, tokens")
    max_batch: int = Field(description="largest batch at the changed context")
