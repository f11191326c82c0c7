"""Peak of activations: the engine's own code, run on shadows of one rank's share of a model. Needs no torch."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from math import ceil
from types import SimpleNamespace
from typing import Any

from day0.engine.crowd import Crowd, crowds
from day0.engine.footprint import layer_state, pages_for
from day0.engine.ladder import Ladder
from day0.engine.shadow.heap import NotRehearsed
from day0.engine.shadow.memory import Remembered
from day0.engine.shadow.reading import Reading
from day0.engine.shadow.stack import Known, Weights, assembled
from day0.engine.share import Formats, Share, turns, visits
from day0.spec.lazy import TORCH_NAMES
from day0.spec.model import PartSpec, TensorSpec
from day0.spec.ops import PHASES, Impl, Phase, Site
from day0.spec.placement import Placement, portion
from day0.spec.record import record
from day0.spec.registry import formats, kernels, parts
from day0.spec.request import Request, Sampling
from day0.spec.state import Group, StateSpec

UNBOUNDED = 1 << 60  # bytes of the workspace, which the plan counts apart
Section = tuple[str, str]  # crowd, what runs
WIDE = 1024  # width of a model that is not a toy
CONTEXTS, BATCHES, CHUNKS = (16384, 65536), (8, 24), (1024, 2048)  # of larger sizes the line through these two tells


@record
class Load:
    """What the largest steps follow from, besides context and batch."""

    dtype: str  #: compute type
    page_size: int  #: tokens of a page
    streamed: bool  #: whether weights are read layer by layer


@lru_cache(maxsize=64)
def ladder(share: Share, load: Load) -> Ladder:
    """The surface of a rank's peaks, kept as long as the process may ask again."""
    return Ladder(Rehearsal(share, load).peak, turns(share.model, load.dtype), wide=share.model.hidden >= WIDE)


class Rehearsal:
    """A share on shadows, bound to torch's kernels, and to the operators' own meaning where torch's refuse."""

    def __init__(self, share: Share, load: Load) -> None:
        self.share, self.model, self.load, self.reading = share, share.model, load, reading()
        self._known: dict[tuple[Crowd, int], dict[str, int]] = {}
        self._failed: NotRehearsed | None = None
        self._remembering: dict[int, Any] = {}
        self._sized = lru_cache(maxsize=8)(self.state)

    def peak(self, context: int, batch: int, chunk: int) -> int:
        """Bytes at the most in any of the largest steps. NotRehearsed where the code asks for what shadows do not know."""
        if self._failed:
            raise self._failed
        found: dict[Section, float] = {}
        for length, along in told_by(context, CONTEXTS):
            for count, across in told_by(batch, BATCHES):
                for tokens, deep in told_by(chunk, CHUNKS):
                    for section, size in self._held(length, count, tokens):
                        found[section] = found.get(section, 0) + along * across * deep * size
        return ceil(max(found.values()))

    def _held(self, context: int, batch: int, chunk: int) -> Iterator[tuple[Section, int]]:
        """What each section of each step holds; a step is run once."""
        rings = chunk if self._windows else 0
        for crowd in crowds(context, batch, chunk):
            if (crowd, rings) not in self._known:
                try:
                    self._known[crowd, rings] = self.step(self._sized(batch, context, rings), crowd)
                except Exception as error:
                    self._failed = NotRehearsed.of(error)
                    raise self._failed from error
            yield from (((crowd.name, section), size) for section, size in self._known[crowd, rings].items())

    def step(self, state: list[Any], crowd: Crowd) -> dict[str, int]:
        """Section → bytes at the most over the state of every layer; choosing tokens is the last."""
        heap, forward = self.reading.heap, self._forward
        for layer, view in zip(forward._layers, state, strict=True):
            layer.run._state = view
        forward.known.clear()
        heap.restart()
        self._run(forward, crowd)
        heap.enter("")
        return dict(heap.peaks)

    def _run(self, forward: Any, crowd: Crowd) -> None:
        torch, read = self.reading.torch, self.reading.module
        decode = self._segment("decode", [(length, 1) for length in crowd.decoding], crowd, 0)
        prefill = self._segment("prefill", list(crowd.reading), crowd, len(crowd.decoding))
        count = len(crowd.decoding) + len(crowd.reading)
        hidden = forward.hidden(read("day0.spec.step").Step(decode=decode, prefill=prefill, outputs=torch.tensor(range(count))))
        self.reading.heap.enter("logits and choices")
        sampler = read("day0.engine.sample")
        sampler.choose(forward.logits(hidden), [sampler.SamplerState(request) for request in asked(count)])

    def _segment(self, phase: Phase, spans: list[tuple[int, int]], crowd: Crowd, first: int) -> Any:
        """Tokens of one phase, (length, new ones) of each sequence; the first of them is in slot `first`."""
        if not spans:
            return None
        torch, count, new = self.reading.torch, len(spans), sum(new for _, new in spans)
        pages = pages_for(max(length for length, _ in spans), self.load.page_size)
        fresh = {group: sum(length // group[1] - (length - each) // group[1] for length, each in spans) for group in self._groups}

        def integers(*shape: int) -> Any:
            return torch.empty(*shape, dtype=torch.int64)

        return self.reading.module("day0.spec.step").Segment(
            phase=phase, tokens_T=integers(new), positions_T=integers(new), queries=tuple(each for _, each in spans),
            lengths=tuple(length for length, _ in spans), entries_N={group: integers(size) for group, size in fresh.items()},
            table_BP=integers(count, pages), runs=tuple(None if crowd.scattered else (first + row) * pages for row in range(count)),
            slots=tuple(range(first, first + count)),
        )  # fmt: skip

    def state(self, count: int, context: int, chunk: int) -> list[Any]:
        """That of `count` sequences, as each layer sees it."""
        views: dict[int, Any] = {}
        with self.reading.heap.aside():
            pools = {kind: self._pools(kind, count, context, chunk) for kind in set(self.share.kinds)}
            for layer, kind in zip(self.model.layers, self.share.kinds, strict=True):
                source = None if layer.kv_source is None else views[layer.kv_source]
                views[layer.index] = self.reading.module("day0.engine.state").LayerState(layer, *pools[kind], source)
        return list(views.values())

    @cached_property
    def _forward(self) -> Any:
        """The engine's forward pass, its state left open; nothing of it counts but what its steps hold."""
        model, share, layers = self.model, self.share, self.model.layers
        with self.reading.heap.aside():
            weights = Weights(self.reading, self._weights, self._ends, model.tied, share.place.tp, self.load.streamed)
            none = SimpleNamespace(device=None, layer=lambda index: None)
            forward = self.reading.module("day0.engine.model").Forward(model, weights, self._bound, none)
        forward.known = {}
        last = {kind: index for index, kind in enumerate(share.kinds)}
        for index, (run, kind) in enumerate(zip(forward._layers, share.kinds, strict=True)):
            run._residual, run._mixers, run._ffn = self._blocks(kind, run)
            forward._layers[index] = Known(run, layers[index].index, kind, last[kind] == index, forward.known)
        return forward

    def _blocks(self, kind: int, run: Any) -> tuple[Any, Any, Any]:
        """The sublayers of a kind of layer, which remember what they held."""
        if kind not in self._remembering:
            ffn = Visited(run._ffn, self.share.place) if run._ffn else None
            mixers = {place: block and self._remember(block, "prefill", "decode") for place, block in run._mixers.items()}
            residual = self._remember(run._residual, "before", "after")
            residual.open, residual.close = run._residual.open, run._residual.close
            self._remembering[kind] = (residual, mixers, ffn and self._remember(ffn, "run"))
        return self._remembering[kind]

    def _remember(self, block: Any, *names: str) -> Any:
        fixed = (PartSpec, SimpleNamespace)  # a layer's sublayer, its weights and its operators
        return SimpleNamespace(**{name: Remembered(getattr(block, name), self.reading.heap, fixed) for name in names})

    def _pools(self, kind: int, count: int, context: int, chunk: int) -> tuple[dict[str, StateSpec], dict[str, Any]]:
        torch, load = self.reading.torch, self.load
        specs = {spec.name: spec for spec in self._states[kind]}
        shapes: dict[str, tuple[int, ...]] = {}
        for name, spec in specs.items():
            if spec.grows:
                shapes[name] = (count * pages_for(context, load.page_size), load.page_size // spec.every)
            else:
                shapes[name] = (count,) if spec.window is None else (count, spec.ring(chunk, context))
        types = {name: getattr(torch, TORCH_NAMES.get(spec.dtype, spec.dtype)) for name, spec in specs.items()}
        return specs, {name: torch.empty(*shapes[name], *spec.shape, dtype=types[name]) for name, spec in specs.items()}

    @cached_property
    def _states(self) -> dict[int, list[StateSpec]]:
        """Kind of layer → what it keeps."""
        kinds = dict(zip(self.share.kinds, self.model.layers, strict=True))
        return {kind: list(layer_state(layer, self.load.dtype)) for kind, layer in kinds.items()}

    @cached_property
    def _windows(self) -> bool:
        """Whether pools depend on what a step brings."""
        return any(spec.window is not None for specs in self._states.values() for spec in specs)

    @cached_property
    def _groups(self) -> set[Group]:
        """Growth groups of state that is written entry by entry."""
        return {spec.group for specs in self._states.values() for spec in specs if spec.grows or spec.window is not None}

    @cached_property
    def _weights(self) -> list[Any]:
        """Of each layer; those of a kind are the same."""
        made: dict[int, Any] = {}
        for layer, forms, kind in zip(self.model.layers, self.share.forms, self.share.kinds, strict=True):
            if kind not in made:
                specs = [(f"{place}.{spec.name}", spec) for place, part in layer.parts() for spec in tensors(part, self.model.hidden)]
                made[kind] = assembled(self.reading, specs, forms, self.load.dtype)
        return [made[kind] for kind in self.share.kinds]

    @cached_property
    def _ends(self) -> Any:
        """Outside the layers: of the vocabulary's rows, a rank's."""
        model, rows = self.model, portion(self.model.vocab, self.share.place.tp)
        specs = [(spec.name, spec) for spec in replace(model, vocab=rows).ends()]
        if model.collapse is not None:
            specs += [(f"collapse.{spec.name}", spec) for spec in tensors(model.collapse, model.hidden)]
        return assembled(self.reading, specs, self.share.ends, self.load.dtype)

    @cached_property
    def _bound(self) -> Any:
        """Operators of every place; those of a kind of layer are bound once."""
        read, kinds = self.reading.module, {layer.index: kind for layer, kind in zip(self.model.layers, self.share.kinds, strict=True)}
        with self.reading.heap.aside():
            bound = read("day0.engine.bind").Bound(self._choices(), read("day0.engine.packed").Workspace(UNBOUNDED, None))
        return SimpleNamespace(at=lambda layer, place, phase: bound.at(kinds.get(layer), place, phase))

    def _choices(self) -> Iterator[Any]:
        """Every call with the kernel that runs it, as a map of operators says it, a kind in the place of its layers."""
        alike = {kind: (layer, forms) for layer, forms, kind in zip(self.model.layers, self.share.forms, self.share.kinds, strict=True)}
        for kind, (layer, forms) in alike.items():
            for place, part in layer.parts():
                own = inside(forms, place)
                yield from (call(site, kind, place, self._choice(site, own)) for site in self._sites(part))
        for phase in PHASES:
            yield from (call(site, None, "", self._choice(site, self.share.ends)) for site in self.model.end_sites(phase))
        if self.model.collapse is not None:
            own = inside(self.share.ends, "collapse")
            yield from (call(site, None, "collapse", self._choice(site, own)) for site in self._sites(self.model.collapse))

    def _sites(self, part: PartSpec) -> Iterator[Site]:
        return (site for phase in PHASES for site in parts().get(part.kind).sites(part, self.model.hidden, phase))

    def _choice(self, site: Site, forms: Formats) -> tuple[str | None, str]:
        """(kernel, format of its weights); decoded ones, which is how torch reads packed weights."""
        form = "+".join(sorted({forms[name] for name in site.weights if name in forms})) or "plain"
        dtype = site.options.get("precision", self.load.dtype)
        asked = replace(site, format="plain", dtype=dtype, sizes={**site.sizes, "T": 1, "S": 1})
        return next((name for name, impl in offers(site.op) if impl.refuses(asked, None) is None), None), form


class Visited:
    """Experts of a rank that those of other copies of attention send tokens to."""

    def __init__(self, block: Any, place: Placement) -> None:
        self._block, self._place = block, place

    def run(self, x_TD: Any, part: PartSpec, w: Any, step: Any, ops: Any) -> Any:
        tokens = ceil(len(x_TD) * visits(part, self._place))
        if tokens == len(x_TD):
            return self._block.run(x_TD, part, w, step, ops)
        made = self._block.run(x_TD.made((tokens, *x_TD.shape[1:])), part, w, step, ops)
        return made.made((len(x_TD), *made.shape[1:]))


def told_by(size: int, by: tuple[int, int]) -> list[tuple[int, float]]:
    """Sizes to run and their shares in what is said of `size`: itself, or the ends of the line that it lies on beyond the second."""
    few, many = by
    if size <= many:
        return [(size, 1.0)]
    share = (size - few) / (many - few)
    return [(few, 1 - share), (many, share)]


def call(site: Site, layer: int | None, place: str, choice: tuple[str | None, str]) -> Any:
    """The row of a map of operators, as far as it is bound by it."""
    kernel, form = choice
    decode = any(formats().get(name).packed for name in form.split("+"))
    return SimpleNamespace(op=site.op, layer=layer, place=place, phase=site.phase, kernel=kernel, decode=decode, format=form)


def inside(forms: Formats, place: str) -> dict[str, str]:
    """Formats of one sublayer's weights, by their names in it."""
    return {name.removeprefix(f"{place}."): form for name, form in forms.items() if name.startswith(f"{place}.")}


def tensors(part: PartSpec, hidden: int) -> list[TensorSpec]:
    """Weights of a sublayer."""
    return list(parts().get(part.kind).tensors(part, hidden))


@cache
def reading() -> Reading:
    """Read once a process."""
    return Reading()


@cache
def offers(op: str) -> list[tuple[str, Impl]]:
    """Torch's implementations of an operator."""
    return [(name, impl) for name, impl in kernels().items() if impl.op == op and impl.provider == "torch"]


def asked(count: int) -> list[Request]:
    """Requests that use every way of choosing tokens."""
    sampling = Sampling(temperature=1.0, top_k=50, top_p=0.9)
    return [Request(id=str(n), tokens=(0,), sampling=sampling, max_new=1) for n in range(count)]
