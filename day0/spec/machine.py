"""The machine a model is planned for, measured or declared; it may be one that has not arrived yet."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from day0.spec.record import record

Evidence = Literal["measured", "vendor", "secondary", "unverified"]


@record
class Card:
    """One accelerator, or the processor and its memory where there is none."""

    name: str  #: "H200"
    memory: int  #: usable bytes, as an engine sees them
    bandwidth: float | None = None  #: memory bytes a second; None when no figure can be trusted
    flops: Mapping[str, float] = field(default_factory=dict)  #: compute type → dense operations a second
    arch: str = ""  #: "sm_90", "gfx942"; empty where it does not matter
    shared_memory: int | None = None  #: bytes that one block of a kernel may share; None when not known
    evidence: Mapping[str, Evidence] = field(default_factory=dict)  #: field → where its figure comes from


@record
class Machine:
    """Cards of one kind in nodes of one kind."""

    name: str  #: profile name: a file in `templates/machines/`, or "this-machine"
    backend: str  #: file name in `backends/`
    card: Card  #: one of its cards
    cards: int = 1  #: how many
    cards_per_node: int = 8  #: that share one host and fast links
    domain: int | None = None  #: cards that share fast links, where these go beyond a node
    group: int | None = None  #: cards that tensor parallelism must not leave, where fewer than a node
    link: float | None = None  #: bytes a second between cards of a node, one direction
    scaleout: float | None = None  #: bytes a second of a card between nodes, one direction
    host_link: float | None = None  #: bytes a second between host and card, one direction
    host_memory: int | None = None  #: bytes of the host; None when not known
    declared: bool = True  #: from a profile (True) or probed here (False)

    @property
    def memory(self) -> int:
        """Usable bytes of all cards."""
        return self.card.memory * self.cards


@record
class Backend:
    """What a file in `backends/` exports: everything that names a kind of device."""

    name: str  #: the file's name
    providers: tuple[str, ...]  #: implementations in order of preference; "reference" is always tried last
    probe: Callable[[], Machine | None]  #: this machine, or None when it has no such device; may import torch
    device: Callable[[int], Any]  #: rank → torch.device
    synchronise: Callable[[Any], None]  #: wait until a device has done its work
    memory: Callable[[Any], dict[str, int]]  #: device → {"used", "peak", "total"} bytes
    reset_peak: Callable[[Any], None]  #: start counting the peak anew
    collectives: str  #: torch.distributed backend
