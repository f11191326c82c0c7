"""What `day0 map-ops` leaves: for every operator call, the implementation that runs it, what that is worth, and why others do not."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.ops import Phase
from day0.spec.reports.base import Report, Strict
from day0.spec.target import Support, VendorKernel

MapStatus = Literal[
    "native", "fused", "compiled-native", "compiled-emulated", "composite", "reference", "host fallback", "refused", "missing"
]  # fmt: skip
Step = Literal["prefill", "decode", "mixed"]
STEPS: tuple[Step, ...] = ("prefill", "decode", "mixed")
FALLBACKS: tuple[MapStatus, ...] = ("compiled-emulated", "reference", "host fallback", "refused", "missing")


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
    variant: str = Field(default="", description="what of the operator's meaning the call asks for: rule, activation, window, …")
    phase: Phase = Field(description="prefill: prompts are read; decode: one token a sequence")
    provider: str | None = Field(description='who runs it; "reference" is the operator\'s own meaning in torch; null when nobody can')
    kernel: str | None = Field(description="file name in day0/kernels/ of that implementation; null for reference")
    status: MapStatus = Field(
        description="what that is on this target; composite: put together from others, or weights are decoded first; host fallback: the "
        "host computes it; refused: nobody can here; missing: day0 has no such operator"
    )
    evidence: str = Field(description="why the status is believed; begins with 'not verified' where it is not")
    decode: bool = Field(description="whether packed weights are decoded into the workspace before the call")
    format: str = Field(description="format of the weights at rest; several are joined by +")
    dtype: str = Field(description="type it computes in")
    sizes: dict[str, int] = Field(description="axis letter → elements on one card; T tokens of a step and S tokens held, by the workload")
    asks: str | None = Field(default=None, description="entry of `asks`: what it asks of torch; null where that was never recorded")
    flops: float = Field(default=0, description="floating-point operations of the call")
    bytes: float = Field(default=0, description="read and written at the least: weights as they rest, state, activations; bytes")
    traffic: float = Field(default=0, description="the same as mapped: where weights are decoded first, they are written and read again")
    unpacked: float = Field(default=0, description="bytes more that its weights would take in memory if they were kept decoded")
    share: float = Field(default=0, description="of its phase, by `basis`, 0 to 1")
    refusals: list[Refusal] = Field(description="implementations that were asked before the chosen one, in order")

    @property
    def name(self) -> str:
        """Such as "layers.3.ffn.experts"; "head" outside the layers."""
        where = "" if self.layer is None else f"layers.{self.layer}."
        return where + (f"{self.place}." if self.place else "") + self.label


class AskRow(Strict):
    """What a call asks of torch."""

    operators: list[str] = Field(description="operators of aten that compute or move numbers, without overloads")
    types: list[str] = Field(description="number types of what they read and write")
    exact: bool = Field(description="recorded for such a call; false: all that the implementation was ever seen to ask")


class BetweenRow(Strict):
    """What sublayers of one kind compute between operators: residual sums, appends to state, splits."""

    kind: str = Field(description='file in day0/parts/, or "step" for what a step does outside the layers')
    phase: Phase = Field(description="prefill or decode")
    status: MapStatus = Field(description="native, host fallback, or refused")
    operators: list[str] = Field(description="operators of aten that it asks for")
    lacking: list[str] = Field(description="those of them, and types, that the target has not")
    evidence: str = Field(description="why the status is believed")


class FallbackRow(Strict):
    """One operator that is not run by something made for this target and for its weights as they rest."""

    op: str = Field(description="operator")
    status: MapStatus = Field(description="what runs it instead")
    formats: list[str] = Field(description="of the weights that it reads, at rest")
    layers: list[int] = Field(description="indices in the stack of the layers that need it")
    calls: int = Field(description="calls of both phases and all layers")
    prefill: float = Field(description="share of prefill, by `basis`, 0 to 1")
    decode: float = Field(description="share of decode, by `basis`, 0 to 1")
    traffic: float = Field(description="bytes as mapped for each byte that it would move at the least")
    unpacked: float = Field(description="bytes more that the weights would take in memory if they were kept decoded")
    slower: float | None = Field(
        description="times that the call takes at the least, of its least time: by bytes as mapped, over the link where the host runs it; "
        "null where no figure is trusted"
    )
    reason: str = Field(description="the last refusal")
    instead: str = Field("", description="another operator that gives the same, and when")
    composed: list[str] = Field(default_factory=list, description="torch operators that the target lacks, in words of others that it has")
    remedy: str = Field(description="command that drafts what is missing")


class DeviceRow(Strict):
    """What one device does."""

    calls: int = Field(description="operator calls of both phases and all layers")
    prefill: float = Field(description="bytes that a step of prefill moves there, as mapped")
    decode: float = Field(description="bytes that a step of decode moves there, as mapped")


class TypeRow(Strict):
    """What the target does with a number type of the weights or of the state."""

    type: str = Field(description="torch's name")
    use: Literal["weights", "compute", "state"] = Field(description="what is kept or computed in it")
    cast: Support = Field(description="conversions, copies and gathers")
    matrix: Support = Field(description="matrix products in hardware")
    handling: str = Field(description="what day0 does with it here")
    source: str = Field(description="where that was read")


class MapOpsReport(Report):
    """Which implementation runs each operator call of a model on a machine."""

    STAGE: ClassVar[str] = "map-ops"
    COMMAND: ClassVar[str] = "day0 map-ops"

    verdict: Literal["complete", "incomplete"] = Field(description="complete: every call has an implementation")
    model: str = Field(description="name of the model")
    family: str = Field(description="file in day0/families/ that the model was read as")
    uncovered: list[str] = Field(description="config keys and tensors of the release that the family does not read")
    machine: str = Field(description="name of the machine")
    target: str = Field(description="manifest that the calls were held against")
    emulated: bool = Field(default=False, description="run, validate and serve refuse on this machine what the target lacks")
    placement: str = Field(description="how the plan cuts the model over cards; sizes and costs of calls are those of one card")
    backend: str = Field(description="file name in day0/backends/ that ordered the providers")
    providers: list[str] = Field(description="in the order in which they are asked; reference is last")
    forced: str | None = Field(description='"reference" when DAY0_OPS asked for references alone, else null')
    summary: dict[str, int] = Field(description="status → operator calls, over all layers and both phases")
    unverified: int = Field(description="operator calls whose status nobody has verified on such a target")
    basis: Literal["time", "bytes"] = Field(
        description="what shares are of. time: that of memory and arithmetic at the card's figures; bytes: moved, where no figure is trusted"
    )
    shares: dict[Step, dict[str, float]] = Field(
        description="step → status → share, 0 to 1; in a mixed step sequences that decode join a chunk of a prompt"
    )
    seconds: dict[Step, float | None] = Field(description="step → least seconds at the card's figures; null without figures")
    devices: dict[Literal["target", "host"], DeviceRow] = Field(description="what runs where")
    fallbacks: list[FallbackRow] = Field(description="what was not made for this target, the largest share of decode first")
    missing: list[str] = Field(description="operators that have neither an implementation nor a reference here, with the reason")
    unavailable: dict[str, str] = Field(description="kernel file that could not be loaded → what it needs")
    types: list[TypeRow] = Field(description="number types of the weights at rest and of what is computed")
    vendors: list[VendorKernel] = Field(description="kernels of vendors for operators that fall back here, which day0 cannot call yet")
    between: list[BetweenRow] = Field(description="what is computed between operators")
    asks: dict[str, AskRow] = Field(description="what calls ask of torch, by entry")
    sites: list[SiteRow] = Field(description="every operator call, in the order of the layers")
