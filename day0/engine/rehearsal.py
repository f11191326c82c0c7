"""Peak of activations: the engine's own code, run on shadows for the largest steps that a workload allows. Needs no torch."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from day0.engine import footprint
from day0.engine.release import Release
from day0.engine.shadow.reading import Reading
from day0.spec.record import record
from day0.spec.reports.map_ops import SiteRow
from day0.spec.reports.plan_memory import WorkloadRow
from day0.spec.request import Request, Sampling


@record
class Crowd:
    """Sequences of one step: tokens held by each, new ones included."""

    decoding: tuple[int, ...]  #: lengths of those that go on by one token
    reading: tuple[tuple[int, int], ...]  #: (length, new tokens) of those whose prompts are read


def crowds(load: WorkloadRow) -> Iterator[Crowd]:
    """The largest steps: every sequence at its longest decodes; or prompts fill a chunk to their ends while all others decode."""
    yield Crowd(decoding=(load.context,) * load.batch, reading=())
    rest, reading = load.chunk, []
    while rest and len(reading) < load.batch:
        reading.append((load.context, min(rest, load.context)))
        rest -= reading[-1][1]
    yield Crowd(decoding=(load.context,) * (load.batch - len(reading)), reading=tuple(reading))


class Rehearsal:
    """A release on shadows, bound as `map-ops` binds it."""

    def __init__(self, release: Release, sites: Iterable[SiteRow], dtype: str) -> None:
        self.release, self.sites, self.dtype = release, list(sites), dtype

    @cached_property
    def reading(self) -> Reading:
        """The engine's modules on shadows."""
        return Reading()

    @cached_property
    def bound(self) -> Any:
        """Operators of every place."""
        bind, packed = self.reading.module("day0.engine.bind"), self.reading.module("day0.engine.packed")
        return bind.Bound(self.sites, packed.Workspace(footprint.workspace(self.release, self.dtype), None))

    @cached_property
    def weights(self) -> "Weights":
        """Of all layers and of the ends."""
        return Weights(self.reading, self.release, self.dtype)

    def peak(self, load: WorkloadRow) -> int:
        """Bytes at the most in any step."""
        return max(self.step(load, crowd) for crowd in crowds(load))

    def step(self, load: WorkloadRow, crowd: Crowd) -> int:
        """Bytes at the most in one step, logits and choices of tokens included."""
        heap, read = self.reading.heap, self.reading.module
        forward, state = self._forward(load, crowd)
        before = heap.live
        heap.restart()
        step = self._step(state, load, crowd)
        hidden_OD = forward.hidden(step)
        logits_OW = forward.logits(hidden_OD)
        sampler = read("day0.engine.sample")
        sampler.choose(logits_OW, [sampler.SamplerState(request) for request in asked(len(logits_OW))])
        return heap.peak - before

    def _forward(self, load: WorkloadRow, crowd: Crowd) -> tuple[Any, Any]:
        count = len(crowd.decoding) + len(crowd.reading)
        pages = count * footprint.pages_for(load.context, load.page_size)
        sizes = {"pages": pages, "page_size": load.page_size, "sequences": count, "context": load.context}
        model = self.release.model
        pools = footprint.state(model, load.dtype, chunk=load.chunk, **sizes)
        state = self.reading.module("day0.engine.state").State(model.layers, pools, device=None, **sizes)
        return self.reading.module("day0.engine.model").Forward(model, self.weights, self.bound, state), state

    def _step(self, state: Any, load: WorkloadRow, crowd: Crowd) -> Any:
        spans = [(length, 1) for length in crowd.decoding] + [*crowd.reading]
        news = []
        for length, new in spans:
            sequence = state.admit(load.context)
            sequence.length = length - new
            news.append((sequence, range(new)))
        split = len(crowd.decoding)
        decode = state.segment("decode", news[:split]) if split else None
        prefill = state.segment("prefill", news[split:]) if crowd.reading else None
        outputs = self.reading.torch.tensor(range(len(spans)))
        return self.reading.module("day0.spec.step").Step(decode=decode, prefill=prefill, outputs=outputs)


class Weights:
    """What a forward pass asks for; the weights lie as the engine lays them."""

    def __init__(self, reading: Reading, release: Release, dtype: str) -> None:
        self.reading, self.dtype = reading, dtype
        self._layers = [self._assembled(release.layer(layer.index)) for layer in release.model.layers]
        self.ends = self._assembled(release.ends())
        self._head = self.ends.embed if release.model.tied else self.ends.head

    def layers(self) -> Iterator[Any]:
        return iter(self._layers)

    def table(self, tokens_T: Any) -> tuple[Any, Any]:
        return self.ends.embed, tokens_T

    def head(self) -> Iterator[Any]:
        yield self._head

    def _assembled(self, group: dict[str, Any]) -> Any:
        torch, loading = self.reading.torch, self.reading.module("day0.engine.loading")
        layout = footprint.buffer(group, self.dtype)
        buffer = torch.empty(layout.bytes, dtype=torch.uint8)
        return loading.assemble(group, loading.views(buffer, layout), getattr(torch, self.dtype))


def asked(count: int) -> list[Request]:
    """Requests that use every way of choosing tokens."""
    sampling = Sampling(temperature=1.0, top_k=50, top_p=0.9)
    return [Request(id=str(n), tokens=(0,), sampling=sampling, max_new=1) for n in range(count)]
