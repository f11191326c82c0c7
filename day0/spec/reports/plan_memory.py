"""What `day0 plan-memory` leaves: what lives where on which card, to the byte, and what the engine has to obey."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from day0.spec.machine import Card, Evidence, Machine
from day0.spec.reports.base import FindingRow, Report, Strict
from day0.spec.workload import Residency


class MachineRow(Strict):
    """The machine that was planned for."""

    name: str = Field(description='profile with a number of cards, or "this-machine"')
    backend: str = Field(description="file name in day0/backends/")
    card: str = Field(description="product name of a card")
    arch: str = Field(description="architecture, such as sm_90")
    memory: int = Field(description="usable bytes of one card")
    cards: int = Field(description="cards that there are")
    cards_per_node: int = Field(description="cards that share a host")
    bandwidth: float | None = Field(description="memory bandwidth of one card, bytes a second; null when no figure can be trusted")
    flops: dict[str, float] = Field(description="number type → dense operations a second of one card; unverified figures are left out")
    link: float | None = Field(description="between cards of a node, one direction, bytes a second; null when not known")
    host_memory: int | None = Field(description="bytes of the host; null when not known")
    declared: bool = Field(description="true: from a profile; false: probed here")
    evidence: dict[str, Evidence] = Field(description="figure of the card → how sure it is")

    @classmethod
    def of(cls, machine: Machine) -> Self:
        """The row that describes a machine."""
        card = machine.card
        return cls(
            name=machine.name, backend=machine.backend, card=card.name, arch=card.arch, memory=card.memory, cards=machine.cards,
            cards_per_node=machine.cards_per_node, bandwidth=card.bandwidth, flops=dict(card.flops), link=machine.link,
            host_memory=machine.host_memory, declared=machine.declared, evidence=dict(card.evidence),
        )  # fmt: skip

    def machine(self) -> Machine:
        """The machine that the row describes."""
        card = Card(name=self.card, memory=self.memory, bandwidth=self.bandwidth, flops=self.flops, arch=self.arch, evidence=self.evidence)
        return Machine(
            name=self.name, backend=self.backend, card=card, cards=self.cards, cards_per_node=self.cards_per_node, link=self.link,
            host_memory=self.host_memory, declared=self.declared,
        )  # fmt: skip


class ModelRow(Strict):
    """The model that was planned."""

    name: str = Field(description="name of the release")
    folder: str = Field(description="absolute path of the release")
    family: str = Field(description="file name in day0/families/")
    context: int = Field(description="longest sequence that the release was made for, tokens")


class WorkloadRow(Strict):
    """What was planned for; what the engine obeys."""

    context: int = Field(description="longest sequence, prompt and answer together, tokens")
    batch: int = Field(description="sequences at once")
    dtype: str = Field(description="type it computes in and keeps state in")
    weights: Residency = Field(description="resident: kept in memory; streamed: read layer by layer")
    page_size: int = Field(description="tokens of a page of state")
    chunk: int = Field(description="tokens of prompts that one step reads at the most")
    vision: bool = Field(False, description="whether images are taken: the tower for them is among the weights")
    image_patches: int = Field(0, description="patches of the largest image that is taken; 0 without vision")


class Placement(Strict):
    """How the model is cut over cards."""

    tp: int = Field(description="tensor-parallel ranks")
    ep: int = Field(description="expert-parallel ranks")
    pp: int = Field(description="pipeline stages")
    dp: int = Field(description="replicas of attention that share the experts")


class CardRow(Strict):
    """One card's memory, in bytes; all but `free` add up to what it needs, and with `free` to what it has."""

    weights: int = Field(description="weights at rest, and the buffers they are streamed through, bytes")
    state: int = Field(description="pages, and slots of state that does not grow, bytes")
    activations: int = Field(description="largest live set of one step, bytes; an estimate")
    workspace: int = Field(description="where packed weights are decoded, allocated once, bytes")
    collectives: int = Field(description="buffers of communication between cards, bytes")
    images: int = Field(0, description="embeddings of images, kept so that one that comes again is not encoded again, bytes at the most")
    margin: int = Field(description="kept free for the runtime, the allocator and what is not counted, bytes")
    free: int = Field(description="what is left, bytes; negative is the shortage")

    @property
    def needed(self) -> int:
        """Bytes it must have."""
        return self.weights + self.state + self.activations + self.workspace + self.collectives + self.images + self.margin


class WeightPool(Strict):
    """One allocation of weights."""

    name: str = Field(description="what it holds: layers, ends, towers, or the buffers that weights are streamed through")
    bytes: int = Field(description="held in memory, bytes")


class TensorGroup(Strict):
    """Weights of one role."""

    role: str = Field(description="linear, expert, norm, embed, head, router, …")
    tensors: int = Field(description="canonical tensors of this role; the experts of a layer are one")
    stored: int = Field(description="in the released files, scales included, bytes")
    bytes: int = Field(description="in memory when all are there, in the type they rest in, alignment included, bytes")
    residency: Residency = Field(description="resident: kept in memory; streamed: read when their layer runs")


class StatePool(Strict):
    """State of one kind in all layers that keep it."""

    name: str = Field(description="which state: k, v, latent, …")
    kind: str = Field(description="paged, window and compressed grow with tokens; recurrent and conv are kept once a sequence")
    layers: int = Field(description="layers that keep it")
    entry_bytes: int = Field(description="one entry of one layer, bytes")
    every: int = Field(description="tokens for each entry")
    window: int | None = Field(description="tokens kept; null keeps all")
    pages: int = Field(description="pages of each layer; 0 for state that does not grow")
    bytes: int = Field(description="all of it, bytes")


class State(Strict):
    """Everything kept between steps."""

    bytes_per_token: int = Field(description="what one more token of a long sequence costs in all layers, bytes")
    bytes_per_sequence: int = Field(description="what a sequence costs whatever its length, bytes")
    page_size: int = Field(description="tokens of a page")
    pages: int = Field(description="pages that the engine allocates in each layer for state that grows without a bound")
    pools: list[StatePool] = Field(description="one for each kind of state; their bytes add up to the card's state")


class Capacity(Strict):
    """What the machine could hold at the most, all else as planned."""

    tokens: int = Field(description="tokens of all sequences together that the free memory and the planned pages hold; whole pages")
    max_context: int = Field(description="longest context at batch 1 that fits in memory, tokens; the release may be made for less")
    max_batch: int = Field(description="largest batch at the planned context that fits")


class PlanMemoryReport(Report):
    """Whether a model fits a machine for a workload, and what lies where."""

    STAGE: ClassVar[str] = "plan-memory"
    COMMAND: ClassVar[str] = "day0 plan-memory"

    verdict: Literal["fits", "does not fit"] = Field(description="whether every card has what it needs")
    reasons: list[FindingRow] = Field(description="what decided it, and warnings; `day0 explain CODE` tells more")
    model: ModelRow = Field(description="what was planned")
    machine: MachineRow = Field(description="what for")
    workload: WorkloadRow = Field(description="what the engine obeys")
    cards: int = Field(description="cards that the plan uses; when it does not fit: cards whose memory would hold its bytes, at the least")
    placement: Placement = Field(description="how the model is cut")
    per_card: list[CardRow] = Field(description="one for each card that the plan uses")
    weights: list[WeightPool] = Field(description="allocations of weights; their bytes add up to the weights of the cards")
    groups: list[TensorGroup] = Field(description="weights by role; when all are resident, their bytes add up to the weights of the cards")
    state: State = Field(description="what is kept between steps")
    capacity: Capacity = Field(description="how far it goes")
    assumptions: list[str] = Field(description="what the figures rest on, in words")


