"""What `day0 plan-memory` leaves: what lives where on which card, to the byte, and what the engine has to obey."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from day0.spec.machine import Card, Evidence, Machine
from day0.spec.placement import Placement
from day0.spec.reports.base import FindingRow, Report, Strict
from day0.spec.reports.calibration import Residual, Variant
from day0.spec.reports.roofline import Roofline
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
    domain: int | None = Field(default=None, description="cards that share fast links, where these go beyond a node")
    group: int | None = Field(default=None, description="cards that tensor parallelism must not leave, where fewer than a node")
    scaleout: float | None = Field(default=None, description="of a card between nodes, one direction, bytes a second; null when not known")
    host_link: float | None = Field(default=None, description="between host and card, one direction, bytes a second; null when not known")
    declared: bool = Field(description="true: from a profile; false: probed here")
    evidence: dict[str, Evidence] = Field(description="figure of the card → how sure it is")

    @classmethod
    def of(cls, machine: Machine) -> Self:
        """The row that describes a machine."""
        card = machine.card
        return cls(
            name=machine.name, backend=machine.backend, card=card.name, arch=card.arch, memory=card.memory, cards=machine.cards,
            cards_per_node=machine.cards_per_node, bandwidth=card.bandwidth, flops=dict(card.flops), link=machine.link,
            host_memory=machine.host_memory, declared=machine.declared, evidence=dict(card.evidence), domain=machine.domain,
            group=machine.group, scaleout=machine.scaleout, host_link=machine.host_link,
        )  # fmt: skip

    def machine(self) -> Machine:
        """The machine that the row describes."""
        card = Card(name=self.card, memory=self.memory, bandwidth=self.bandwidth, flops=self.flops, arch=self.arch, evidence=self.evidence)
        return Machine(
            name=self.name, backend=self.backend, card=card, cards=self.cards, cards_per_node=self.cards_per_node, link=self.link,
            host_memory=self.host_memory, declared=self.declared, domain=self.domain, group=self.group, scaleout=self.scaleout,
            host_link=self.host_link,
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
    kv_dtype: str | None = Field(default=None, description="type of keys, values and latents that are kept; null: the compute type")
    engine: str = Field(default="day0", description="whose layout of memory is planned: file name in templates/engines/")
    prediction: bool = Field(default=False, description="whether extra prediction layers are loaded")
    vision: bool = Field(default=False, description="whether towers of other modalities are loaded")
    images: int = Field(default=1, description="images that another engine encodes at once, where towers are loaded")
    image_tokens: int = Field(default=4096, description="tokens of the largest image")
    image_patches: int = Field(default=0, description="patches of the largest image that is taken; 0 where no tower is run")
    utilisation: float = Field(default=1, description="share of a card that may be filled")

    @property
    def sees(self) -> bool:
        """Whether day0 runs the tower for images."""
        return self.image_patches > 0


class PlacementRow(Strict):
    """How the model is cut over cards."""

    tp: int = Field(description="tensor-parallel ranks")
    ep: int = Field(description="expert-parallel ranks")
    pp: int = Field(description="pipeline stages")
    dp: int = Field(description="replicas of attention that share the experts")

    @classmethod
    def of(cls, place: Placement) -> Self:
        """The row that describes a placement."""
        return cls(tp=place.tp, ep=place.ep, pp=place.pp, dp=place.dp)


class CardRow(Strict):
    """One card's memory, in bytes: weights to margin add up to what it needs, and with `free` to what it has."""

    weights: int = Field(description="weights at rest, and the buffers they are streamed through, bytes")
    state: int = Field(description="pages, and slots of state that does not grow, bytes")
    activations: int = Field(description="largest live set of one step, bytes")
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
    scales_stored: int = Field(default=0, description="of `stored`, companions of packed weights, bytes")
    scales: int = Field(default=0, description="of `bytes`, companions of packed weights, bytes")
    per_card: int = Field(default=0, description="of `bytes`, on the card that has most of this role, bytes")
    copies: float = Field(default=1, description="`bytes` by those of one card that holds everything: how often the cards hold it, cuts rounded up")


class StatePool(Strict):
    """State of one kind in all layers that keep it."""

    name: str = Field(description="which state: k, v, latent, …")
    kind: str = Field(description="paged, window and compressed grow with tokens; recurrent and conv are kept once a sequence")
    layers: int = Field(description="layers that keep it")
    entry_bytes: int = Field(description="one entry of one layer, bytes")
    every: int = Field(description="tokens for each entry")
    window: int | None = Field(description="tokens kept; null keeps all")
    pages: int = Field(description="pages of each layer; 0 for state that does not grow")
    bytes: int = Field(description="all of it on all cards, bytes")
    formula: str = Field(default="", description="how the bytes of one token (or of one sequence) in all its layers come about")
    copies: float = Field(default=1, description="how often the cards of one copy of attention hold each entry")


class State(Strict):
    """Everything kept between steps."""

    bytes_per_token: int = Field(description="what one more token of a long sequence costs in all layers, every head once, bytes")
    bytes_per_sequence: int = Field(description="what a sequence costs whatever its length, bytes")
    page_size: int = Field(description="tokens of a page")
    card_bytes_per_token: int = Field(default=0, description="the same on one card (of each stage), bytes")
    card_bytes_per_sequence: int = Field(default=0, description="the same of a sequence whatever its length, bytes")
    pages: int = Field(description="pages that the engine allocates in each layer for state that grows without a bound")
    pools: list[StatePool] = Field(description="one for each kind of state; their bytes add up to the state of the cards")


class Part(Strict):
    """One of several things that add up."""

    name: str = Field(description="what it is for")
    bytes: int = Field(description="on one card, bytes")


class Band(Strict):
    """How sure the fullest card's figures are: half of all runs, and 19 of 20, need no more."""

    margin_p50: int = Field(description="runtime, allocator and what is not counted, bytes")
    margin_p95: int = Field(description="the same; what is kept free, bytes")
    free_p50: int = Field(description="what is left, bytes; negative is the shortage")
    free_p95: int = Field(description="the same, bytes")


class Load(Strict):
    """The fullest card while weights are read, apart from when it runs."""

    peak: int = Field(description="weights, and what laying them out anew takes beside them, bytes")
    transient: int = Field(description="of the peak, what is given back, bytes")
    steady: int = Field(description="what it needs when it runs, margin left out, bytes")


class Alternative(Strict):
    """The best legal plan on some number of cards."""

    cards: int = Field(description="cards")
    placement: PlacementRow = Field(description="how the model is cut")
    free: int = Field(description="left on the fullest card, bytes; negative is the shortage")
    sequences: int = Field(description="sequences of the planned context that all cards hold together")


class Point(Strict):
    """One point of the frontier."""

    context: int = Field(description="tokens of each sequence")
    batch: int = Field(description="most sequences; 0 when not one fits")


class Tier(Strict):
    """Weights that lie off the cards."""

    where: Literal["host", "disk"] = Field(description="memory of the host, or its disk")
    bytes: int = Field(description="weights that lie there, bytes")
    needed_p50: int = Field(description="with pages to pass them through, bytes")
    needed_p95: int = Field(description="with memory that is pinned in powers of two, bytes")
    experts: float = Field(description="share of the routed experts that lie there")


class Offload(Strict):
    """What would have to lie off the cards: routed experts, coldest first."""

    feasible: bool = Field(description="whether what is left on the cards fits them, and the host holds what it is given")
    tiers: list[Tier] = Field(description="from fast to slow")
    reason: str = Field(default="", description="why not, in words")


class Capacity(Strict):
    """What the machine could hold at the most, all else as planned."""

    tokens: int = Field(description="tokens of all sequences together that the free memory and the planned pages hold; whole pages")
    max_context: int = Field(description="longest context at batch 1 that fits in memory, tokens; the release may be made for less")
    max_batch: int = Field(description="largest batch at the planned context that fits")
    printed_tokens: int | None = Field(default=None, description="tokens that the engine's own log will state; null where it has no such line")


class PlanMemoryReport(Report):
    """Whether a model fits a machine for a workload, and what lies where."""

    STAGE: ClassVar[str] = "plan-memory"
    COMMAND: ClassVar[str] = "day0 plan-memory"

    verdict: Literal["fits", "does not fit", "refused"] = Field(
        description="whether every card has what it needs; refused: the model cannot be cut so"
    )
    reasons: list[FindingRow] = Field(description="what decided it, and warnings; `day0 explain CODE` tells more")
    model: ModelRow = Field(description="what was planned")
    machine: MachineRow = Field(description="what for")
    workload: WorkloadRow = Field(description="what the engine obeys")
    cards: int = Field(description="cards that the plan uses; when it does not fit: cards whose memory would hold its bytes, at the least")
    placement: PlacementRow = Field(description="how the model is cut")
    cp: int = Field(default=1, description="ranks of tp that share the tokens of replicated state")
    redundant_experts: int = Field(default=0, description="experts that are held a second time")
    band: Band | None = Field(default=None, description="how sure it is")
    per_card: list[CardRow] = Field(description="one for each card that the plan uses")
    weights: list[WeightPool] = Field(description="allocations of weights; their bytes add up to the weights of the cards")
    groups: list[TensorGroup] = Field(description="weights by role; when all are resident, their bytes add up to the weights of the cards")
    state: State = Field(description="what is kept between steps")
    capacity: Capacity = Field(description="how far it goes")
    transients: list[Part] = Field(default_factory=list, description="what adds up to the activations of a card")
    collectives: list[Part] = Field(default_factory=list, description="what adds up to the collectives of a card")
    load: Load | None = Field(default=None, description="while weights are read")
    alternatives: list[Alternative] = Field(default_factory=list, description="the best legal plan for each number of cards, where not fixed")
    frontier: list[Point] = Field(default_factory=list, description="longest context against largest batch")
    offload: Offload | None = Field(default=None, description="when it does not fit: what would lie off the cards")
    what_if: list[Variant] = Field(default_factory=list, description="other workloads that were asked about")
    calibration: list[Residual] = Field(default_factory=list, description="what an engine's log says beside the plan")
    roofline: Roofline | None = Field(default=None, description="how fast it can be at the most")
    residual: str = Field(default="unknown", description="what the engine holds beyond what is modelled: none, unknown, or as published")
    assumptions: list[str] = Field(description="what the figures rest on, in words")


