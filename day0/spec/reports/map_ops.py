"""What `day0 map-ops` leaves: for every operator call, the implementation that runs it, and why others do not."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.ops import Phase, Status
from day0.spec.reports.base import Report, Strict

MapStatus = Literal[Status, "missing"]


class Refusal(Strict):
    """An implementation that could have been, and was not."""

    provider: str = Field(description="who offers it")
    reason: str = Field(description="why it cannot run this call on this machine")


class SiteRow(Strict):
    """One operator call. (op, layer, place, label, phase) is unique."""

    op: str = Field(description="operator, a file in day0/ops/")
    layer: int | None = Field(description="index in the stack; null outside it")
    place: str = Field(description='"mixer", "ffn" or "residual" within a layer; empty outside; "vision.…" in the tower for images')
    label: str = Field(description="which of the calls there: the weight it reads or what it does")
    phase: Phase = Field(description="prefill: prompts are read; decode: one token a sequence")
    provider: str | None = Field(description='who runs it; "reference" is the operator\'s own meaning in torch; null when nobody can')
    kernel: str | None = Field(description="file name in day0/kernels/ of that implementation; null for reference")
    status: MapStatus = Field(description="what that implementation is on this machine; composite: weights are decoded first")
    decode: bool = Field(description="whether packed weights are decoded into the workspace before the call")
    format: str = Field(description="format of the weights at rest; several are joined by +")
    dtype: str = Field(description="type it computes in")
    sizes: dict[str, int] = Field(description="axis letter → elements; T tokens of a step and S tokens held, from the plan's workload")
    refusals: list[Refusal] = Field(description="implementations that were asked before the chosen one, in order")


class MapOpsReport(Report):
    """Which implementation runs each operator call of a model on a machine."""

    STAGE: ClassVar[str] = "map-ops"
    COMMAND: ClassVar[str] = "day0 map-ops"

    verdict: Literal["complete", "incomplete"] = Field(description="complete: every call has an implementation")
    model: str = Field(description="name of the model")
    machine: str = Field(description="name of the machine")
    backend: str = Field(description="file name in day0/backends/ that ordered the providers")
    providers: list[str] = Field(description="in the order in which they are asked; reference is last")
    forced: str | None = Field(description='"reference" when DAY0_OPS asked for references alone, else null')
    summary: dict[str, int] = Field(description="status → operator calls, over all layers and both phases")
    missing: list[str] = Field(description="operators that have neither an implementation nor a reference here, with the reason")
    unavailable: dict[str, str] = Field(description="kernel file that could not be loaded → what it needs")
    sites: list[SiteRow] = Field(description="every operator call, in the order of the layers")
