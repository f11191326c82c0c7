"""What the community's class of a model asks of torch, by what it is for: a map of a model that no family reads."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.ops import Phase
from day0.spec.reports.base import Report, Strict
from day0.spec.reports.map_ops import AskRow

DiscoveredStatus = Literal["native", "composite", "host fallback", "refused", "unverified"]


class DiscoveredRow(Strict):
    """Calls of one meaning in modules of one class."""

    op: str = Field(description="operator, a file in day0/ops/, that the calls amount to; empty for what lies between operators")
    module: str = Field(description="class of the innermost module that makes the calls")
    example: str = Field(description="path of the first such module")
    modules: int = Field(description="how many modules of that class make them")
    phase: Phase = Field(description="prefill: the prompt is read; decode: one token more")
    calls: int = Field(description="calls of torch operators that compute or move numbers")
    asks: AskRow = Field(description="those operators, and number types")
    flops: float = Field(description="of matrix products and attention, as torch counts them")
    bytes: float = Field(description="read and written by the calls one by one, without reuse")
    share: float = Field(description="of the bytes of its phase, 0 to 1")
    status: DiscoveredStatus = Field(
        description="native: the target has a kernel for each; composite: matrix products are put together from others; host fallback: it "
        "lacks some"
    )
    evidence: str = Field(description="what the manifest lacks, or where it was read")
    composed: list[str] = Field(default_factory=list, description="torch operators that the target lacks, in words of others that it has")


class DiscoveredReport(Report):
    """Operators of a model as transformers computes it."""

    STAGE: ClassVar[str] = "discovered"
    COMMAND: ClassVar[str] = "day0 map-ops --executor community"

    verdict: Literal["complete", "incomplete"] = Field(description="complete: nothing is refused")
    model: str = Field(description="class that was traced")
    release: str = Field(description="where its configuration lies")
    target: str = Field(description="manifest that the calls were held against")
    tokens: int = Field(description="tokens of the prompt that was traced")
    dtype: str = Field(description="compute type")
    assumed: list[str] = Field(description="calls whose results have a size that depends on numbers, and what was assumed")
    rows: list[DiscoveredRow] = Field(description="prefill, then decode; the largest share first")
