"""A model's weights and layers on shadows: what is alike exists once, and runs once."""

from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from day0.engine.footprint import HEAD_ROWS, rest_dtype
from day0.engine.shadow.reading import Reading
from day0.spec.lazy import TORCH_NAMES
from day0.spec.model import TensorSpec
from day0.spec.registry import formats

Formats = Mapping[str, str]  # weight of a layer (or of the ends) → its format


def assembled(reading: Reading, specs: Iterable[tuple[str, TensorSpec]], forms: Formats, dtype: str) -> Any:
    """Weights as attributes, as `loading.assemble` gives them: packed ones know their format and their shape alone."""
    torch, packed, loading = reading.torch, reading.module("day0.engine.packed"), reading.module("day0.engine.loading")
    root = SimpleNamespace()
    groups: dict[str, list[Any]] = {}
    for name, spec in specs:
        kind = getattr(torch, TORCH_NAMES[rest_dtype(spec.precision, dtype)])
        if formats().get(forms.get(name, "plain")).packed:
            value = packed.Packed(forms[name], {}, (1, 1), spec.shape, kind, spec.role == "expert")
        else:
            value = torch.empty(spec.shape, dtype=kind)
        loading.place(root, name, value)
        if spec.group:
            prefix = name[: len(name) - len(spec.name.rpartition(".")[2])]
            groups.setdefault(prefix + spec.group.rpartition(".")[2], []).append(value)
    for name, members in groups.items():
        loading.place(root, name, packed.Group(tuple(members), joined(members)))
    return root


def joined(members: list[Any]) -> Any:
    """All of them as one tensor, where they are plain and of one type, because then they lie side by side."""
    first = members[0]
    if any(not hasattr(member, "strides") or member.dtype is not first.dtype for member in members):
        return None
    return first.made((sum(member.shape[0] for member in members), *first.shape[1:]))


class Weights:
    """What a forward pass asks for, on one of `ranks` that cut the vocabulary."""

    def __init__(self, reading: Reading, layers: list[Any], ends: Any, tied: bool, ranks: int, streamed: bool) -> None:
        self.ends, self._layers, self._torch = ends, layers, reading.torch
        self._head, self._ranks, self._streamed = ends.embed if tied else ends.head, ranks, streamed

    def layers(self) -> Iterator[Any]:
        return iter(self._layers)

    def table(self, tokens_T: Any) -> tuple[Any, Any]:
        """Streamed, the rows of the tokens that occur, all different."""
        if not self._streamed:
            return self.ends.embed, tokens_T
        unique, rows_T = tokens_T.unique(return_inverse=True)
        return self.ends.embed.made((len(unique), self.ends.embed.shape[1])), rows_T

    def head(self) -> Iterator[Any]:
        """A rank's rows, then as many for each other rank, whose logits come to it."""
        rows = self._head.shape[0]
        step = HEAD_ROWS if self._streamed else rows
        for _ in range(self._ranks):
            yield from (self._head[start : start + step] for start in range(0, rows, step))


class Known:
    """A layer of a kind. One like it that ran before, after a stream of the same shape, tells what it holds and what it leaves.

    Streams that grow from layer to layer are followed to the last layer of the kind, which runs where the stream is largest.
    """

    def __init__(self, run: Any, index: int, kind: int, last: bool, known: dict[int, "Left"]) -> None:
        self.run, self._index, self._kind, self._last, self._known = run, index, kind, last, known
        self.open, self.close = run.open, run.close

    def __call__(self, stream: Any, w: Any, step: Any) -> Any:
        heap, left = stream.heap, self._known.get(self._kind)
        heap.enter(f"layer of kind {self._kind}")
        if left is None or (stream.shape != left.given and self._last):
            return self._ran(stream, w, step)
        if left.nothing:
            heap.scratch(left.held)
            return stream
        for segment, shared in zip(step.segments(), left.shared, strict=True):
            for name, value in shared.items():
                segment.shared[tuple(self._index if part == left.index else part for part in name)] = value and value.like()
        heap.scratch(left.held)
        return stream.made(tuple(made + now - given for made, now, given in zip(left.made, stream.shape, left.given, strict=True)))

    def _ran(self, stream: Any, w: Any, step: Any) -> Any:
        heap, before = stream.heap, [set(segment.shared) for segment in step.segments()]
        live = heap.live
        made = self.run(stream, w, step)
        held = heap.enter("between layers") - live
        new = [
            {name: value for name, value in segment.shared.items() if name not in known}
            for segment, known in zip(step.segments(), before, strict=True)
        ]
        own = [{name: value for name, value in found.items() if isinstance(name, tuple) and self._index in name} for found in new]
        if new == own:  # else it made what all layers share, which the next one finds
            nothing = made.shape == stream.shape and not any(own)
            self._known[self._kind] = Left(index=self._index, given=stream.shape, made=made.shape, shared=own, held=held, nothing=nothing)
        return made


class Left(SimpleNamespace):
    """What a layer held beyond what lived before, and left."""

    index: int  # of the layer
    given: tuple[int, ...]  # shape of the stream before it
    made: tuple[int, ...]  # and after it
    shared: list[dict[Any, Any]]  # segment by segment, what it leaves under its own name
    held: int  # bytes
    nothing: bool  # whether it left neither another shape of stream nor anything under its name
