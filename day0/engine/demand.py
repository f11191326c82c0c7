"""What a release needs on one card under a workload, and how far the card goes. Needs no torch."""

from collections.abc import Callable
from functools import cached_property
from math import ceil
from typing import Any

from day0.engine import footprint
from day0.engine.release import Release
from day0.spec import dtype as number
from day0.spec.machine import Machine
from day0.spec.reports.plan_memory import Capacity, CardRow, WorkloadRow

RUNTIME = 1 << 30  # bytes for process, driver context and libraries; 0.2 to 1.8 GiB are published for engines on one card
SLACK = 50  # one part in 50 of everything else, for the allocator's rounding


class Demand:
    """A release, a workload and a machine, and the bytes that follow from them."""

    def __init__(self, release: Release, workload: WorkloadRow, machine: Machine) -> None:
        self.release, self.workload, self.machine = release, workload, machine

    @cached_property
    def weights(self) -> dict[str, int]:
        """Allocation → bytes."""
        return footprint.weights(self.release, self.workload.dtype, self.workload.weights, self.workload.vision)

    @cached_property
    def workspace(self) -> int:
        """Bytes that packed weights are decoded into."""
        return footprint.workspace(self.release, self.workload.dtype, self.workload.vision)

    @property
    def pages(self) -> int:
        """Pages of each layer for the whole batch at full length."""
        return self.workload.batch * footprint.pages_for(self.workload.context, self.workload.page_size)

    @property
    def step_tokens(self) -> int:
        """Tokens of the largest step: a chunk of prompts, and one token of every sequence."""
        return min(self.workload.chunk, self.workload.batch * self.workload.context) + self.workload.batch

    @property
    def activations(self) -> int:
        """Peak of what one step computes."""
        load = self.workload
        model = self.release.model
        parts = footprint.activations(model, load.dtype, tokens=self.step_tokens, outputs=load.batch, context=load.context)
        encoder = model.encoder if load.vision else None
        if encoder is None:
            return sum(parts.values())
        inserted = number.size(load.dtype, self.step_tokens * encoder.out * (1 + len(encoder.taps)))
        return max(sum(parts.values()) + inserted, footprint.encoding(encoder, load.dtype, load.image_patches))

    @property
    def images(self) -> int:
        """Room for the embeddings of one image of each sequence."""
        load, encoder = self.workload, self.release.model.encoder
        return load.batch * footprint.embeddings(encoder, load.dtype, load.image_patches) if load.vision and encoder else 0

    def pools(self, pages: int) -> list[footprint.StatePool]:
        """What the state manager allocates when it has `pages` pages."""
        load = self.workload
        sizes = {"page_size": load.page_size, "sequences": load.batch, "chunk": load.chunk, "context": load.context}
        return footprint.state(self.release.model, load.dtype, pages=pages, **sizes)

    def card(self, pages: int | None = None) -> CardRow:
        """The card's memory with `pages` pages of state; without, those of the workload."""
        sizes = {
            "weights": sum(self.weights.values()),
            "state": sum(pool.bytes for pool in self.pools(self.pages if pages is None else pages)),
            "activations": self.activations,
            "workspace": self.workspace,
            "collectives": 0,
            "images": self.images,
        }
        margin = RUNTIME + sum(sizes.values()) // SLACK
        return CardRow(**sizes, margin=margin, free=self.machine.card.memory - sum(sizes.values()) - margin)

    @property
    def room(self) -> int:
        """Bytes of the card that are not kept free for the runtime."""
        return max(0, self.machine.card.memory - RUNTIME)

    def shortage(self, *parts: str) -> int:
        """Bytes that these parts of the card are short of, were they alone there with their margin; 0 when there is room."""
        card = self.card()
        size = sum(getattr(card, part) for part in parts)
        return max(0, RUNTIME + size + size // SLACK - self.machine.card.memory)

    def least_cards(self) -> int:
        """1 when one card has room, else cards whose memory together would hold the bytes, at the least."""
        card = self.card()
        return 1 if card.free >= 0 else max(2, ceil(card.needed / self.machine.card.memory))

    def under(self, **changes: Any) -> "Demand":
        """The same release and machine under a changed workload."""
        changed = Demand(self.release, self.workload.model_copy(update=changes), self.machine)
        if not changes.keys() & {"weights", "dtype"}:
            changed.weights, changed.workspace = self.weights, self.workspace
        return changed

    def fits(self, **changes: Any) -> bool:
        """Whether one card has room under a changed workload."""
        return self.under(**changes).card().free >= 0

    def max_context(self, batch: int) -> int:
        """Longest context, in whole pages, at which `batch` sequences fit; 0 when none does."""
        page = self.workload.page_size
        return page * largest(lambda pages: self.fits(batch=batch, context=pages * page))

    def max_batch(self) -> int:
        """Most sequences of the planned context that fit; 0 when not one does."""
        return largest(lambda batch: self.fits(batch=batch))

    def capacity(self) -> Capacity:
        """How far each quantity goes with the others held."""
        tokens = self.workload.page_size * largest(lambda pages: self.card(pages).free >= 0)
        return Capacity(tokens=tokens, max_context=self.max_context(batch=1), max_batch=self.max_batch())


def amount(count: int) -> str:
    """Bytes in words."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def largest(holds: Callable[[int], bool], limit: int = 1 << 40) -> int:
    """The largest number for which `holds`, which is true up to some number and false beyond; 0 when it never is, at most `limit`."""
    low, high = 0, 1
    while high <= limit and holds(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
