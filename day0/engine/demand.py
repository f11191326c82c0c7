"""What a release needs on each card under a workload and a placement, and how far the cards go. Needs no torch."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import ceil
from typing import Any

from day0.engine import entries, footprint, transient
from day0.engine.entries import Pool, printed_tokens
from day0.engine.holdings import Holdings
from day0.engine.inventory import Inventory
from day0.engine.release import Release
from day0.engine.rules import named_rules
from day0.engine.shard import Cut
from day0.engine.working import Working, working
from day0.spec.encoder import Encoder
from day0.spec.machine import Machine
from day0.spec.model import Layer
from day0.spec.placement import ONE_CARD, Placement
from day0.spec.registry import formats
from day0.spec.reports.plan_memory import Capacity, CardRow, WorkloadRow
from day0.spec.rules import GIB, Band
from day0.spec.state import StateSpec


class Demand:
    """A release, a workload, a machine and a placement, and the bytes that follow from them."""

    def __init__(
        self, release: Release, workload: WorkloadRow, machine: Machine, placement: Placement = ONE_CARD, inventory: Inventory | None = None
    ) -> None:  # fmt: skip
        self.release, self.workload, self.machine, self.placement = release, workload, machine, placement
        self.rules = named_rules(workload.engine)
        self.inventory = inventory or Inventory(release, workload.dtype)

    @cached_property
    def cut(self) -> Cut:
        """How one card holds a weight."""
        form = self.inventory.bank_format
        return Cut(self.placement, self.rules, self.machine.card.arch, self.workload.dtype, bank_format=form)

    @cached_property
    def holdings(self) -> Holdings:
        """What the cards of each stage hold of the weights."""
        return Holdings(self.inventory, self.workload, self.placement, self.rules, self.cut)

    @property
    def encoder(self) -> Encoder | None:
        """The tower that is run."""
        return self.release.model.encoder if self.workload.sees else None

    @cached_property
    def workspace(self) -> int:
        """Bytes on one card that packed weights are decoded into."""
        if self.workload.engine != "day0":
            return 0
        layers, ends, hidden = self.inventory.layers, self.inventory.ends, self.release.model.hidden
        text = footprint.most_decoded(layers, ends, hidden, self.workload.dtype, lambda located: self.cut.shape(located.spec, None, 1))
        return max(text, footprint.tower_decoded(self.release, self.workload.dtype) if self.encoder else 0)

    @property
    def sequences(self) -> int:
        """Sequences of one copy of attention."""
        return -(-self.workload.batch // self.placement.dp)

    @property
    def pages(self) -> int:
        """Pages of each layer for the sequences of a card at full length."""
        return self.sequences * footprint.pages_for(self.workload.context, self.workload.page_size)

    @property
    def step_tokens(self) -> int:
        """Tokens of the largest step of a card: a chunk of prompts, and one token of every sequence."""
        return min(self.workload.chunk, self.sequences * self.workload.context) + self.sequences

    @cached_property
    def working(self) -> Working:
        """What a step holds on one card; where the weights alone are more than the card, nothing runs, and formulas will do."""
        runs = self.workload.engine == "day0" and max(sum(held.values()) for held in self._weights) <= self.machine.card.memory
        return working(self.inventory, self.workload, self.placement, self.rules, runs=runs)

    @property
    def transients(self) -> dict[str, int]:
        """The same by what it is for."""
        return self.working.parts

    @property
    def activations(self) -> int:
        """Peak of what one step computes."""
        return sum(self.transients.values())

    @property
    def images(self) -> int:
        """Room for the embeddings of one image of each sequence, where day0 runs the tower."""
        load = self.workload
        return load.batch * transient.embeddings(self.encoder, load.dtype, load.image_patches) if self.encoder else 0

    @cached_property
    def collectives(self) -> dict[str, int]:
        """Buffers of communication, by what they are for."""
        return transient.collectives(self.release.model, self.placement, self.rules)

    def pools(self, pages: int, stage: int = 0) -> list[Pool]:
        """State of one card of a stage when its sequences have `pages` pages."""
        return [self._pool(layer, spec, pages) for layer, kept in self._kept(stage) for spec in kept]

    def _pool(self, layer: Layer, spec: StateSpec, pages: int) -> Pool:
        return entries.pool(layer, spec, self.workload, self.rules, self.machine.card.arch, self.placement, pages)

    def _kept(self, stage: int) -> list[tuple[Layer, tuple[StateSpec, ...]]]:
        """What each layer of a stage keeps; prediction layers keep what the last layer of the stack keeps."""
        keys, prediction = self.rules.index.on_all_layers, self.release.model.prediction
        found = [self.inventory.state(index, keys) for index in self.holdings.stages[stage]]
        if self.workload.prediction and prediction and stage == self.placement.pp - 1:
            found += [self.inventory.state(len(self.release.model.layers) - 1, keys)] * prediction.count
        return found

    @cached_property
    def _growth(self) -> list[tuple[int, int, int]]:
        """Stage → bytes of a page by heads, of a page that every rank holds, and of what does not grow."""
        found = []
        for stage in range(self.placement.pp):
            kept = self._kept(stage)
            times, first = Counter(id(specs) for _, specs in kept), {id(specs): (layer, specs) for layer, specs in kept}
            pools = [(self._pool(layer, spec, 1), times[key]) for key, (layer, specs) in first.items() for spec in specs]
            heads = sum(pool.bytes * count for pool, count in pools if pool.spec.grows and pool.spec.heads)
            shared = sum(pool.bytes * count for pool, count in pools if pool.spec.grows and not pool.spec.heads)
            found.append((heads, shared, sum(pool.bytes * count for pool, count in pools if not pool.spec.grows)))
        return found

    def state(self, pages: int, stage: int) -> int:
        """Bytes of the state of one card of a stage when its sequences have `pages` pages."""
        heads, shared, fixed = self._growth[stage]
        return pages * heads + -(-pages // self.placement.cp) * shared + fixed

    def card(self, pages: int | None = None, stage: int | None = None) -> CardRow:
        """A card's memory with `pages` pages of state; without, those of the workload. Without a stage, that of the fullest one."""
        pages = self.pages if pages is None else pages
        if stage is None:
            return min((self.card(pages, stage) for stage in range(self.placement.pp)), key=lambda card: card.free)
        sizes = {
            "weights": sum(self._weights[stage].values()),
            "state": self.state(pages, stage),
            "activations": self.activations,
            "workspace": self.workspace,
            "collectives": sum(self.collectives.values()),
            "images": self.images if stage == 0 else 0,
        }
        margin = self.margin(sizes, "p95")
        return CardRow(**sizes, margin=margin, free=self.machine.card.memory - sum(sizes.values()) - margin)

    def band(self) -> dict[str, int]:
        """Margin and what is left of the fullest card, usually and 19 times of 20."""
        card = self.card()
        low = self.margin(card.model_dump(exclude={"margin", "free"}), "p50")
        return {"margin_p50": low, "margin_p95": card.margin, "free_p50": card.free + card.margin - low, "free_p95": card.free}

    @cached_property
    def _weights(self) -> list[dict[str, int]]:
        return [self.holdings.weights(stage) for stage in range(self.placement.pp)]

    def margin(self, sizes: Mapping[str, int], which: str) -> int:
        """What is kept free: the part of the card that is not filled or its graphs, context, what the engine was seen to hold more, slack."""
        rules = self.rules

        def of(band: Band) -> float:
            return float(getattr(band, which))

        kept = max(self.machine.card.memory * (1 - self.workload.utilisation), of(rules.graphs_gib) * GIB)
        doubt = self.working.doubt if "activations" in sizes else None
        more = of(self.residual) * sizes["weights"] if self.residual else 0
        more += of(doubt) * sizes["activations"] if doubt else 0
        return int(kept + more) + int(of(rules.context_gib) * GIB) + int(sum(sizes.values()) * of(rules.slack))

    @cached_property
    def residual(self) -> Band | None:
        """What the engine was seen to hold beyond the weights as they are modelled, as a share of them; None where nothing is known."""
        form = self.inventory.bank_format
        return next((rule.share for rule in self.rules.residual if form and rule.speaks_of(form, self.machine.card.arch)), None)

    @cached_property
    def inventory_bytes(self) -> int:
        """Bytes of all layers, each once, as the placement's cards hold them."""
        return sum(sum(self.holdings.layers(stage)) for stage in range(self.placement.pp))

    @property
    def sequences_that_fit(self) -> int:
        """Sequences of the planned context that all cards hold together, what a step computes taken as it is."""
        most = []
        for stage in range(self.placement.pp):
            card, fixed = self.card(stage=stage), self._growth[stage][2]
            pages = footprint.pages_for(self.workload.context, self.workload.page_size)
            one = self.state(pages, stage) - fixed + fixed // max(1, self.sequences)
            most.append((card.free + card.state) // max(1, one))
        return self.placement.dp * max(0, min(most))

    @property
    def room(self) -> int:
        """Bytes of the card that are not kept free whatever is on it."""
        return max(0, self.machine.card.memory - self.margin({"weights": 0}, "p95"))

    def shortage(self, *parts: str) -> int:
        """Bytes that these parts of the fullest card are short of, were they alone there with their margin; 0 when there is room."""
        card = self.card()
        sizes = {part: getattr(card, part) for part in parts}
        return max(0, sum(sizes.values()) + self.margin({"weights": 0} | sizes, "p95") - self.machine.card.memory)

    def least_cards(self) -> int:
        """The placement's cards when they have room, else cards whose memory together would hold the bytes, at the least."""
        card = self.card()
        needed = ceil(card.needed * self.placement.cards / self.machine.card.memory)
        return self.placement.cards if card.free >= 0 else max(self.placement.cards + 1, needed)

    def under(self, **changes: Any) -> "Demand":
        """The same release, machine and placement under a changed workload."""
        same = changes.keys().isdisjoint({"dtype"})
        load = self.workload.model_copy(update=changes)
        changed = Demand(self.release, load, self.machine, self.placement, self.inventory if same else None)
        if changes.keys().isdisjoint({"weights", "dtype", "engine", "prediction", "vision"}):
            changed.__dict__.update({name: self.__dict__[name] for name in ("_weights", "workspace") if name in self.__dict__})
        return changed

    def placed(self, placement: Placement) -> "Demand":
        """The same under another placement."""
        return Demand(self.release, self.workload, self.machine, placement, self.inventory)

    def fits(self, **changes: Any) -> bool:
        """Whether every card has room under a changed workload."""
        return self.under(**changes).holds

    def max_context(self, batch: int) -> int:
        """Longest context, in whole pages, at which `batch` sequences fit; 0 when none does."""
        page = self.workload.page_size
        return page * largest(lambda pages: self.fits(batch=batch, context=pages * page))

    def max_batch(self) -> int:
        """Most sequences of the planned context that fit; 0 when not one does."""
        return largest(lambda batch: self.fits(batch=batch))

    def capacity(self) -> Capacity:
        """How far each quantity goes with the others held."""
        tokens = self.workload.page_size * self.placement.dp * largest(lambda pages: self.card(pages).free >= 0)
        card = self.card()
        printed = printed_tokens(self.pools(1), max(0, card.free + card.state)) if self.rules.page_groups else None
        return Capacity(tokens=tokens, max_context=self.max_context(batch=1), max_batch=self.max_batch(), printed_tokens=printed)

    def load(self) -> dict[str, int]:
        """The fullest card while weights are read: what they take, what laying experts out anew takes beside them, and both with a step."""
        card, held = self.card(), max(sum(weights.values()) for weights in self._weights)
        largest = max((max(bank.values()) for bank in self.inventory.banks), default=0)
        again = int(self.rules.repack * largest / self.placement.stage) if self.repacks else 0
        return {"peak": held + again, "transient": again, "steady": card.needed - card.margin}

    @property
    def load_shortage(self) -> int:
        """Bytes that the fullest card is short of while experts are laid out anew; 0 when there is room."""
        load = self.load()
        return max(0, load["peak"] + self.context - self.machine.card.memory) if load["transient"] else 0

    @property
    def holds(self) -> bool:
        """Whether every card has room, while weights are read and when it runs."""
        return self.card().free >= 0 and not self.load_shortage

    @property
    def context(self) -> int:
        """Bytes of a card that the process takes before anything is loaded."""
        return int(self.rules.context_gib.p50 * GIB)

    @property
    def repacks(self) -> bool:
        """Whether experts are laid out anew after they were read."""
        form = self.inventory.bank_format
        return bool(form) and formats().get(form).packed and form != "fp8_block"

    def cards(self) -> Iterator[CardRow]:
        """Every card, stage by stage."""
        for stage in range(self.placement.pp):
            row = self.card(stage=stage)
            yield from (row for _ in range(self.placement.stage))


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
