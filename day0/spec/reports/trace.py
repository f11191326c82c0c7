"""What one pass computed on its way: a few figures for each block, and values to compare with another pass."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict


class TraceRow(Strict):
    """One tensor of the pass."""

    layer: int | None = Field(description="index in the stack; null outside it")
    part: str = Field(description='"embed"; "mixer" and "ffn": what each adds; "stream": what leaves the layer; "logits"')
    shape: list[int] = Field(description="axes, tokens first")
    rms: float = Field(description="root mean square of the finite values")
    mean: float = Field(description="mean of the finite values")
    peak: float = Field(description="largest magnitude of the finite values")
    broken: int = Field(description="values that are NaN or infinite")
    first: int | None = Field(description="first token with such a value; null without any")
    kept: int = Field(description="values that were kept in trace.safetensors, at equal distances in the flattened tensor")


class TraceReport(Report):
    """One pass over some tokens, block by block."""

    STAGE: ClassVar[str] = "trace"
    COMMAND: ClassVar[str] = "day0 trace"

    verdict: Literal["finite", "broken"] = Field(description="broken: some value is NaN or infinite")
    model: str = Field(description="name of the model")
    executor: Literal["native", "community"] = Field(description="whose code ran")
    dtype: str = Field(description="type it computed in")
    tokens: int = Field(description="length of the sequence")
    ids_sha256: str = Field(description="digest of the token ids, as decimal numbers with commas")
    full: bool = Field(description="whether all values were kept")
    rows: list[TraceRow] = Field(description="tensors, in the order in which they were computed")


class TraceDiffRow(Strict):
    """One tensor of two passes."""

    layer: int | None = Field(description="index in the stack of A; null outside it")
    part: str = Field(description="as in the trace")
    error: float | None = Field(description="difference, relative to B, as root mean squares; null for another shape or values broken on one side")
    values: int = Field(description="values that were compared")
    rank: int | None = Field(default=None, description="the one rank of B whose share is wrong; null where that cannot be told")


class TraceDiffReport(Report):
    """Two passes over the same tokens, tensor by tensor."""

    STAGE: ClassVar[str] = "trace-diff"
    COMMAND: ClassVar[str] = "day0 diff A B"

    verdict: Literal["same", "different"] = Field(description="different: an error stands out of those before it, and of what rounding explains")
    before: str = Field(description="A")
    after: str = Field(description="B")
    notes: list[str] = Field(description="how B had to be read to line up with A")
    explained: float = Field(description="relative error that the coarser type of both explains")
    first: TraceDiffRow | None = Field(description="first tensor whose error stands out")
    rows: list[TraceDiffRow] = Field(description="tensors that both have, in the order of A")
