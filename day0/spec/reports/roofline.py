"""The section of a plan that says how fast it can be at the most, and by what."""

from typing import Literal

from pydantic import Field

from day0.spec.ops import Phase
from day0.spec.reports.base import Strict

Limit = Literal["weights", "state", "operations", "collectives", "latency"]


class PhaseBound(Strict):
    """One step of one phase on the busiest card."""

    phase: Phase = Field(description="prefill: a chunk of one prompt; decode: one token of every sequence")
    tokens: int = Field(description="of the step, all copies of attention together")
    weight_bytes: int = Field(description="weights that a card reads: of routed experts those that are expected to be chosen, bytes")
    state_bytes: int = Field(description="state that a card reads and writes: windows, chosen entries and indices as they are, bytes")
    collective_bytes: int = Field(description="that a card sends, bytes")
    flops: float = Field(description="operations of a card")
    experts: float = Field(description="different experts of a layer that the step is expected to touch; 0 where there are none")
    seconds_best: float | None = Field(description="with every figure of the machine reached, and layers that start at once after each other")
    seconds_usual: float | None = Field(description="with the shares of them that engines reach, and a usual delay for each layer")
    limit: Limit | None = Field(description="what takes longest as it usually is; null where no speed can be told")

    @property
    def rate(self) -> tuple[float, float] | None:
        """Tokens a second of the whole plan, usually and at best."""
        if self.seconds_usual is None or self.seconds_best is None:
            return None
        return self.tokens / self.seconds_usual, self.tokens / self.seconds_best


class Roofline(Strict):
    """Bounds on speed, from bytes and operations; not a measurement."""

    phases: list[PhaseBound] = Field(description="prefill and decode")
    unknown: str = Field(description="why there are no seconds; empty where there are")
    prediction: int = Field(description="extra prediction layers that could guess tokens ahead; their gain is in no figure here")
    assumptions: list[str] = Field(description="what the figures rest on, in words")
