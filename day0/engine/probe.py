"""The engine laid open: one layer alone on given hidden states, with a given choice of experts, every operator call observed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from math import lcm
from typing import Any

import torch
from torch import Tensor

from day0.engine import footprint
from day0.engine.bind import Bound, Function, Place, chained
from day0.engine.layer import BoundLayer
from day0.engine.loading import copy, decoded, place
from day0.engine.model import frequencies, turn
from day0.engine.on_demand import OnDemand, asks_one_by_one, can_wait
from day0.engine.packed import Workspace
from day0.engine.release import Located, Release
from day0.engine.rounded import Keep, Rounded
from day0.engine.state import LayerState, State
from day0.engine.state import Sequence as StateSequence
from day0.engine.watch import emulation
from day0.engine.weights import load
from day0.ops.route import weigh
from day0.spec.lazy import torch_dtype
from day0.spec.ops import Phase
from day0.spec.registry import backends, blocks, formats, ops
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.rope import Rope
from day0.spec.step import Images, Step

PAGE = 16  # tokens of a page of the probe's own state
READERS = {  # operator → its argument that says what each token reads
    "sparse_latent_attention": "indices_TK", "compressed_attention": "chosen_TK", "block_sparse_attention": "chosen_TNK",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Call:
    """One operator call that happened."""

    layer: int | None
    place: str  # "mixer", "ffn", "residual"; empty outside the layers
    phase: Phase
    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


Judge = Callable[[Call], None]


@dataclass(frozen=True, kw_only=True)
class LayerResult:
    """What one layer made of the tokens it was given."""

    hidden_TD: Tensor  # stream after the layer
    parts: dict[str, Tensor]  # "mixer", "ffn" → what the sublayer added, [T, D]
    scores_TE: Tensor | None  # router logits; None without a router
    experts_TK: Tensor | None  # experts that the router chose, also where others were forced
    weights_TK: Tensor | None  # their factors
    reads_TK: Tensor | None = None  # what attention chose to read in a single step, also where a choice was forced; None: all there is
    reused_TK: Tensor | None = None  # choice of another layer that a single step reuses unless one is forced; None: that layer made none
    state: dict[str, Tensor] = field(default_factory=dict)  # what the layer keeps of the sequence once all steps are done, by its name
    positions_T: Tensor | None = None  # positions that the steps gave their tokens


class Probe:
    """Runs layers of a release one by one, as the operator map says; holds one layer's weights at a time."""

    def __init__(self, release: Release, mapped: MapOpsReport, dtype: str) -> None:
        self.release, self.mapped, self._dtype, self.dtype = release, mapped, dtype, torch_dtype(dtype)
        self.device = backends().get(mapped.backend).device(0)
        self._workspace = Workspace(footprint.workspace(release, dtype), self.device)
        self._loaded: tuple[int, Any] | None = None
        self._frequencies = frequencies(release.model, self.device)
        self._judge: Judge | None = None
        self._routes: list[tuple[Tensor, Tensor, Tensor]] = []
        self._forced_TK: Tensor | None = None
        self._forced_reads: Tensor | None = None
        self._reads: list[Tensor] = []
        self.keep: Keep | None = None  # what is left of state that is written; None: all
        self._chosen: dict[int | None, dict[tuple[int, int], Tensor | None]] = {}  # layer → (first token, tokens) → what it chose to read

    @classmethod
    def open(cls, release: Release, mapped: MapOpsReport, dtype: str) -> "Probe":
        """Day0Error unless every weight is there."""
        release.require_complete()
        return cls(release, mapped, dtype)

    @torch.inference_mode()
    def embed(self, ids: Sequence[int], judge: Judge | None = None, images: Images | None = None) -> Tensor:
        """Stream [T, D] that enters the first layer; what `images` have stands in the place of some tokens."""
        self._judge = judge
        unique, places_T = torch.tensor(ids, device=self.device).unique(return_inverse=True)
        table_WD = torch.cat([self._rows("embed", token, 1) for token in unique.tolist()])
        x_TD = self._ends("prefill").embedding(table_WD, places_T)
        if self.release.model.embed_scale != 1:
            x_TD = x_TD * self.release.model.embed_scale
        if images is not None:
            x_TD = x_TD.index_copy(0, images.rows_N, images.embeddings_ND)
        residual = self.release.model.layers[0].residual
        return blocks().get(residual.kind).open(x_TD, residual)

    @torch.inference_mode()
    def head(self, stream_TD: Tensor, judge: Judge | None = None) -> Tensor:
        """Float32 logits [T, W] of the stream that left the last layer; no layer's weights are held beside the head's rows."""
        x_TD, model, bound = self.normed(stream_TD, judge), self.release.model, self._ends("prefill")
        name = "embed" if model.tied else "head"
        starts = range(0, model.vocab, footprint.HEAD_ROWS)
        pieces = [bound.linear(x_TD, self._rows(name, start, min(footprint.HEAD_ROWS, model.vocab - start))).float() for start in starts]
        return torch.cat(pieces, dim=-1) * model.logit_scale

    @torch.inference_mode()
    def normed(self, stream_TD: Tensor, judge: Judge | None = None) -> Tensor:
        """What the head reads of the stream that left the last layer, [T, D]: streams joined, and the last norm."""
        self._judge, self._loaded = judge, None
        model, bound, collapse = self.release.model, self._ends("prefill"), self._ends("prefill", "collapse")
        w = self._load({name: each for name, each in self.release.ends().items() if each.spec.role not in ("embed", "head")})
        residual = model.layers[-1].residual
        x_TD = blocks().get(residual.kind).close(stream_TD.to(self.dtype), residual, getattr(w, "collapse", None), collapse)
        return x_TD if model.norm is None else bound.rms_norm(x_TD, w.norm, model.norm.eps, model.norm.plus_one)

    @torch.inference_mode()
    def layer(
        self, index: int, hidden_TD: Tensor, experts_TK: Tensor | None, chunks: Sequence[int], judge: Judge | None = None, *,
        ids: Sequence[int] | None = None, reads_TK: Tensor | None = None, axes_3S: Tensor | None = None,
    ) -> LayerResult:  # fmt: skip
        """Layer `index` on the tokens of one sequence, fed in steps of `chunks` tokens: single ones after the first by the decode path.

        With `experts_TK` that choice is forced, and weighed by our own scores. `reads_TK` (positions, entries or blocks; [T, N, K] where
        heads differ; -1 is none) is what attention reads instead of its own choice. Without it a layer that reuses another's choice takes
        what that layer chose when it last ran on as many tokens in as many steps; the latest ones where it did not. `ids` matter to
        routers that choose by token, `axes_3S` as in `Segment` where there are images.
        """
        assert sum(chunks) == len(hidden_TD), f"chunks {list(chunks)} do not add up to {len(hidden_TD)} tokens"
        self._judge, self._routes, self._reads = judge, [], []
        state = self._state(index, len(hidden_TD))
        bound = self._bound(index)
        run = BoundLayer(self.release.model.layers[index], bound, self._kept(state.layer(index)))
        sequence = state.admit(len(hidden_TD))
        assert sequence is not None
        sequence.axes_3S = axes_3S
        streams, parts, positions = [], [], []
        for start, count in zip(_starts(chunks), chunks, strict=True):
            seen: dict[str, Tensor] = {}
            self._forced_TK = None if experts_TK is None else experts_TK[start : start + count]
            self._forced_reads = None if reads_TK is None else reads_TK[start : start + count]
            step = self._step(state, sequence, start, list(ids[start : start + count]) if ids else [0] * count)
            self._share(index, step, (start, count))
            stream = hidden_TD[start : start + count].to(self.dtype)
            streams.append(run(stream, self.weights(index), step, seen))
            if ("indices", index) in (shared := step.segments()[0].shared):
                self._chosen.setdefault(index, {})[start, count] = shared["indices", index]
            parts.append(seen)
            positions.append(step.segments()[0].positions_T)
        routes = [torch.cat(column) for column in zip(*self._routes, strict=True)] if self._routes else [None, None, None]
        joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        return LayerResult(
            hidden_TD=torch.cat(streams), parts=joined, scores_TE=routes[0], weights_TK=routes[1], experts_TK=routes[2],
            reads_TK=self._reads[0] if len(chunks) == 1 and self._reads else None,
            reused_TK=self._chosen.get(self.release.model.layers[index].index_source, {}).get((0, len(hidden_TD))),
            state=state.layer(index).kept(step.segments()[0]), positions_T=torch.cat(positions),
        )  # fmt: skip

    def _kept(self, state: LayerState) -> Any:
        """The state of a layer as it is written."""
        return state if self.keep is None else Rounded(state, self.keep)

    def _share(self, index: int, step: Step, span: tuple[int, int]) -> None:
        """What a layer that reuses a choice finds in its segment: nothing while all there is may be read."""
        layer = self.release.model.layers[index]
        if layer.index_source is None:
            return
        (segment,), top_k = step.segments(), getattr(layer.mixer, "top_k", 0)
        latest_TK = (segment.positions_T[:, None] - torch.arange(top_k, device=self.device)).clamp(min=-1)
        chosen = self._chosen.get(layer.index_source, {}).get(span, latest_TK) if self._forced_reads is None else self._forced_reads
        segment.shared["indices", layer.index_source] = chosen if segment.longest > top_k else None

    def choices(self) -> dict[tuple[int, int, int], Tensor | None]:
        """What layers chose to read so far, for those that reuse it: (layer, first token, tokens) → the choice."""
        return {(layer, *span): chosen for layer, spans in self._chosen.items() for span, chosen in spans.items() if layer is not None}

    def recall(self, choices: dict[tuple[int, int, int], Tensor | None]) -> None:
        """Go on with what another probe of the same model returned as `choices`."""
        for (layer, start, count), chosen in choices.items():
            self._chosen.setdefault(layer, {})[start, count] = chosen

    def entering(self, index: int, stream: Tensor) -> Tensor:
        """A reference's stream, [T, D], of our shape, or of our shape with its streams side by side, as layer `index` takes it."""
        residual, hidden = self.release.model.layers[index].residual, self.release.model.hidden
        if stream.dim() == 2 and stream.shape[1] != hidden:
            return stream.unflatten(-1, (-1, hidden))
        opened: Tensor = stream if stream.dim() > 2 else blocks().get(residual.kind).open(stream, residual)
        return opened

    def leaving(self, index: int, stream: Tensor, like: Tensor) -> Tensor:
        """The stream after layer `index` in the shape of a reference's."""
        residual = self.release.model.layers[index].residual
        if like.dim() == 2 and like.shape[1] != self.release.model.hidden:
            return stream.flatten(1)
        closed: Tensor = stream if stream.dim() == like.dim() else blocks().get(residual.kind).close(stream, residual, None, None)
        return closed

    def rotary(self, rope: Rope, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        """The engine's cosines and sines [T, A] at given positions."""
        found = turn(positions_T.to(self.device), {rope: self._frequencies[rope]})[rope]
        return found.cos_TA, found.sin_TA

    def _step(self, state: State, sequence: StateSequence, start: int, ids: list[int]) -> Step:
        count = len(ids)
        phase = "decode" if count == 1 and start else "prefill"
        segment = state.segment(phase, [(sequence, ids)])  # type: ignore[arg-type]
        segment.rotary = turn(segment.positions_T, self._frequencies, segment.axes_3T)
        rows = torch.arange(count, device=self.device)
        return Step(decode=segment if phase == "decode" else None, prefill=segment if phase == "prefill" else None, outputs=rows)

    def weights(self, index: int) -> Any:
        """What the engine holds of one layer: `w.mixer.q`; valid until another layer is asked for."""
        if self._loaded is None or self._loaded[0] != index:
            self._loaded = None  # before the next one is read, not after
            self._loaded = (index, self._load(self.release.layer(index), self._waits(index)))
        return self._loaded[1]

    def _rows(self, name: str, start: int, count: int) -> Tensor:
        """Some rows of the embedding table or the head."""
        stored, hidden = self.release.ends()[name].pieces[0][1], self.release.model.hidden
        if formats().get(stored.format).packed:
            return decoded(self.release.folder, stored, self.dtype)[start : start + count].to(self.device)
        rows = torch.empty(count, hidden, dtype=self.dtype, device=self.device)
        copy(self.release.folder, stored.parts["data"], rows, start * hidden)
        return rows

    def _load(self, group: dict[str, Located], waiting: bool = False) -> Any:
        """Weights in memory; with `waiting`, banks of packed experts stay on disk."""
        banks = {name: located for name, located in group.items() if waiting and can_wait(located)}
        held = {name: located for name, located in group.items() if name not in banks}
        layout = footprint.buffer(held, self._dtype)
        buffer = torch.empty(layout.bytes, dtype=torch.uint8, device=self.device)
        weights = load(self.release, held, layout, buffer, self._dtype)
        for name, located in banks.items():
            place(weights, name, OnDemand.of(located, self.release.folder, self.dtype))
        return weights

    def _waits(self, index: int) -> bool:
        """Whether every call that reads experts of a layer asks for one after the other, so that they can be read one by one."""
        return self.device.type == "cpu" and all(asks_one_by_one(one) for one in self.mapped.sites if (one.layer, one.op) == (index, "experts"))

    def _state(self, index: int, tokens: int) -> State:
        model = self.release.model
        page = lcm(PAGE, footprint.page_unit(model))
        sizes = {"pages": footprint.pages_for(tokens, page), "page_size": page, "sequences": 1, "context": tokens}
        pools = footprint.state(model, self._dtype, chunk=tokens, **sizes)
        wanted = {index, model.layers[index].kv_source}
        return State(model.layers, [pool for pool in pools if pool.layer in wanted], device=self.device, **sizes)

    def _ends(self, phase: Phase, place: str = "") -> Any:
        return self._bound(None).at(None, place, phase)

    def _bound(self, layer: int | None) -> Bound:
        """Operators of one layer, or of the ends; under the target that the map emulates, if it does."""
        sites = [site for site in self.mapped.sites if site.layer == layer]
        emulated = emulation(self.mapped)
        return Bound(sites, self._workspace, chained(emulated.wrap if emulated else None, self._observe))

    def _observe(self, place: Place, op: str, function: Function) -> Function:
        layer, where, phase = place

        def observed(*args: Any, **kwargs: Any) -> Any:
            if op in READERS:
                args, kwargs = self._reading(op, args, kwargs)
            result = function(*args, **kwargs)
            if self._judge:
                self._judge(Call(layer=layer, place=where, phase=phase, op=op, args=args, kwargs=kwargs, result=result))
            if op != "route":
                return result
            logits_TE, _, rule = args[:3]
            self._routes.append((logits_TE, *result))
            if self._forced_TK is not None:
                result = (weigh(logits_TE, self._forced_TK, rule), self._forced_TK)
            return result

        return observed

    def _reading(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call of attention that reads a choice: noted, and replaced where another one is forced."""
        bound = signature(ops().get(op).reference).bind(*args, **kwargs)
        chosen = bound.arguments.get(READERS[op])
        if chosen is None:
            return args, kwargs
        self._reads.append(chosen)
        if self._forced_reads is not None:
            bound.arguments[READERS[op]] = self._forced_reads
        return bound.args, bound.kwargs


def _starts(chunks: Sequence[int]) -> list[int]:
    return [sum(chunks[:i]) for i in range(len(chunks))]
