"""Peak of activations: the engine's own code, run on shadows for the largest steps that a workload allows. Needs no torch."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

from day0.engine import footprint
from day0.engine.release import Release
from day0.engine.shadow.reading import Reading
from day0.spec.model import Layer
from day0.spec.record import record
from day0.spec.reports.map_ops import SiteRow
from day0.spec.reports.plan_memory import WorkloadRow
from day0.spec.request import Request, Sampling
from day0.spec.workload import Residency

MANY = 32  # sequences of a step that are rehearsed


@record
class Crowd:
    """Sequences of one step: tokens held by each, new ones included."""

    decoding: tuple[int, ...]  #: lengths of those that go on by one token
    reading: tuple[tuple[int, int], ...]  #: (length, new tokens) of those whose prompts are read


def crowds(load: WorkloadRow) -> Iterator[Crowd]:
    """The largest steps, every sequence at its longest: all decode; or a chunk of prompts is read to their ends while all others decode.

    A chunk is one prompt after the other, or as much of each of two.
    """
    yield Crowd(decoding=(load.context,) * load.batch, reading=())
    rest = load.chunk
    whole: list[int] = []
    while rest and len(whole) < load.batch:
        whole.append(min(rest, load.context))
        rest -= whole[-1]
    half = -(-min(load.chunk, 2 * load.context) // 2)
    for news in [whole, [half, half]] if load.batch > 1 else [whole]:
        yield Crowd(decoding=(load.context,) * (load.batch - len(news)), reading=tuple((load.context, new) for new in news))


class Rehearsal:
    """A release on shadows, bound as `map-ops` binds it."""

    def __init__(self, release: Release, sites: Iterable[SiteRow], dtype: str) -> None:
        self.release, self.sites, self.dtype = release, list(sites), dtype
        self._peaks: dict[tuple[object, ...], int] = {}
        self._alike = [repr((replace(layer, index=0, index_source=None, kv_source=None), *edges(layer))) for layer in release.model.layers]

    @property
    def reading(self) -> Reading:
        """The engine's modules on shadows."""
        return reading()

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
        """Bytes at the most in any step; of many sequences each adds what the last of a few added."""
        few = min(load.batch, MANY)
        found, fewer = (self._peak(load, batch) for batch in (few, few - (load.batch > few)))
        return found + (load.batch - few) * max(0, found - fewer)

    def _peak(self, load: WorkloadRow, batch: int) -> int:
        smaller = load.model_copy(update={"batch": batch})
        key = (load.context, batch, load.chunk, load.page_size, load.weights)
        if key not in self._peaks:
            self._peaks[key] = max(self.step(smaller, crowd) for crowd in crowds(smaller))
        return self._peaks[key]

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
        weights = self.weights.as_read(load.weights)
        forward = self.reading.module("day0.engine.model").Forward(model, weights, self.bound, state)
        known: dict[object, Any] = {}
        forward._layers = [Known(*each, known) for each in zip(forward._layers, model.layers, self._alike, strict=True)]
        return forward, state

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


@cache
def reading() -> Reading:
    """Read once a process."""
    return Reading()


class Known:
    """A layer that runs once: those that are like it, after the same stream, leave what it left."""

    def __init__(self, run: Any, layer: Layer, alike: str, known: dict[object, Any]) -> None:
        self._run, self._index, self._alike, self._known = run, layer.index, alike, known
        self.open, self.close = run.open, run.close

    def __call__(self, stream: Any, w: Any, step: Any) -> Any:
        key = (self._alike, stream.shape)
        if key not in self._known:
            before = [set(segment.shared) for segment in step.segments()]
            made = self._run(stream, w, step)
            own = [
                {key: value for key, value in segment.shared.items() if key not in old and isinstance(key, tuple) and self._index in key}
                for segment, old in zip(step.segments(), before, strict=True)
            ]
            self._known[key] = (self._index, made.shape, own)
            return made
        index, shape, own = self._known[key]
        for segment, shared in zip(step.segments(), own, strict=True):
            for name, value in shared.items():
                other = tuple(self._index if part == index else part for part in name)
                segment.shared[other] = None if value is None else value.like()
        return stream.made(shape)


class Weights:
    """What a forward pass asks for; the weights lie as the engine lays them."""

    def __init__(self, reading: Reading, release: Release, dtype: str) -> None:
        self.reading, self.dtype, self.streamed = reading, dtype, False
        self.vocab, self.hidden = release.model.vocab, release.model.hidden
        self._layers = [self._assembled(release.layer(layer.index)) for layer in release.model.layers]
        self.ends = self._assembled(release.ends())
        self._head = self.ends.embed if release.model.tied else self.ends.head

    def as_read(self, residency: Residency) -> "Weights":
        """The same, kept or streamed."""
        self.streamed = residency == "streamed"
        return self

    def layers(self) -> Iterator[Any]:
        return iter(self._layers)

    def table(self, tokens_T: Any) -> tuple[Any, Any]:
        if not self.streamed:
            return self.ends.embed, tokens_T
        unique, rows_T = tokens_T.unique(return_inverse=True)
        return unique.made((len(unique), self.hidden), getattr(self.reading.torch, self.dtype)), rows_T

    def head(self) -> Iterator[Any]:
        step = footprint.HEAD_ROWS if self.streamed else self.vocab
        yield from (self._head[start : start + step] for start in range(0, self.vocab, step))

    def _assembled(self, group: dict[str, Any]) -> Any:
        torch, loading = self.reading.torch, self.reading.module("day0.engine.loading")
        layout = footprint.buffer(group, self.dtype)
        buffer = torch.empty(layout.bytes, dtype=torch.uint8)
        return loading.assemble(group, loading.views(buffer, layout), getattr(torch, self.dtype))


def edges(layer: Layer) -> tuple[bool, bool]:
    """Whether it reads other layers' choices, or their keys and values."""
    return layer.index_source is not None, layer.kv_source is not None


def asked(count: int) -> list[Request]:
    """Requests that use every way of choosing tokens."""
    sampling = Sampling(temperature=1.0, top_k=50, top_p=0.9)
    return [Request(id=str(n), tokens=(0,), sampling=sampling, max_new=1) for n in range(count)]
