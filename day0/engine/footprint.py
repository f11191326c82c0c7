"""Bytes of everything the engine allocates, from the same declarations that it allocates by. Needs no torch."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import lcm, prod

from day0.engine.release import Located, Release
from day0.spec import dtype as number
from day0.spec.errors import Day0Error
from day0.spec.format import Stored
from day0.spec.model import Layer, Model, PartSpec
from day0.spec.names import Cut
from day0.spec.ops import PHASES
from day0.spec.record import record
from day0.spec.registry import formats, parts
from day0.spec.state import StateSpec

ALIGNMENT = 64  # bytes between starts of tensors that share a buffer
HEAD_ROWS = 4096  # rows of the vocabulary that a streamed head holds at a time
READ_AHEAD = 2  # layers that a streamed model holds: the one that runs and the next

Part = tuple[str, str, tuple[int, ...]]  # name ("" for a plain weight), safetensors type, shape
PartsOf = Callable[[Located, str], list[Part]]
ShapeOf = Callable[[Located], tuple[int, ...]]


@record
class Slice:
    """One tensor (or one part of a packed one) inside a buffer."""

    name: str  #: within its layer, "mixer.q"
    part: str  #: "" for a plain tensor, else the part of its format ("data", "scale")
    dtype: str  #: safetensors name of the type at rest
    shape: tuple[int, ...]  #: elements along each axis
    start: int  #: first byte in the buffer

    @property
    def bytes(self) -> int:
        """Bytes without the gap to the next one."""
        return number.size(self.dtype, prod(self.shape))


@record
class Buffer:
    """One allocation that holds several tensors."""

    slices: tuple[Slice, ...]  #: in order
    bytes: int  #: of the whole


@record
class StatePool:
    """One allocation of the state manager: one piece of state of one layer, for all sequences."""

    layer: int  #: index in the stack
    spec: StateSpec  #: what it holds
    shape: tuple[int, ...]  #: [pages, entries in a page, …] where it grows; [sequences, ring, …] for a window; else [sequences, …]

    @property
    def bytes(self) -> int:
        """Bytes of the pool."""
        return number.size(self.spec.dtype, prod(self.shape))


def at_rest(located: Located, dtype: str) -> list[Part]:
    """(part, type, shape) of a weight once it is loaded: plain ones in the compute type, packed ones as stored, each part cut alike."""
    piece, stored = located.pieces[0]
    if not formats().get(stored.format).packed:
        return [("", rest_dtype(located.spec.precision, dtype), located.spec.shape)]
    stack = (len(located.pieces),) if located.stacked else ()
    cuts = part_cuts(stored, piece.cut)
    return [(part, header.dtype, stack + _cut_shape(header.shape, cuts.get(part))) for part, header in stored.kept.items()]


def part_cuts(stored: Stored, cut: Cut | None) -> dict[str, Cut]:
    """part → how it is cut where a packed weight is cut; Day0Error where the format cannot be cut there.

    A part with one entry along the axis, such as the scale of a block that is larger than the weight, serves every piece.
    """
    if cut is None or cut.of == 1:
        return {}
    form = formats().get(stored.format)
    steps = form.steps(stored, cut.axis) if form.steps else None
    steps = steps and {part: (axis, step) for part, (axis, step) in steps.items() if step == 1 or stored.parts[part].shape[axis] > 1}
    size, rest = divmod(stored.shape[cut.axis], cut.of)
    if steps is None or rest or any(size % step or (cut.interleaved and step > 1) for _, step in steps.values()):
        problem = f"{stored.name} holds {cut.of} weights along axis {cut.axis}, where {stored.format} cannot be cut"
        raise Day0Error(problem, stored.parts["data"].file, hint="take a release of the model in another format")
    return {part: replace(cut, axis=axis, transpose=False) for part, (axis, _) in steps.items()}


def _cut_shape(shape: tuple[int, ...], cut: Cut | None) -> tuple[int, ...]:
    return shape if cut is None else (*shape[: cut.axis], shape[cut.axis] // cut.of, *shape[cut.axis + 1 :])


def rest_dtype(precision: str, dtype: str) -> str:
    """Safetensors name of the type that an unpacked weight rests in."""
    if precision == "integer":
        return "I64"
    return number.COMPUTE["float32" if precision == "float32" and dtype != "float64" else dtype]


def buffer(weights: Mapping[str, Located], dtype: str, parts_of: PartsOf | None = None, alignment: int = ALIGNMENT) -> Buffer:
    """How the weights of one layer (or of the ends) lie in one allocation; `parts_of` is `at_rest` unless a card holds less."""
    parts_of = parts_of or at_rest
    slices: list[Slice] = []
    end, group = 0, ""
    for name, located in weights.items():
        for part, kind, shape in parts_of(located, dtype):
            beside = not part and group and located.spec.group == group
            slices.append(Slice(name=name, part=part, dtype=kind, shape=shape, start=end if beside else aligned(end, alignment)))
            end = slices[-1].start + slices[-1].bytes
            group = "" if part else located.spec.group
    return Buffer(slices=tuple(slices), bytes=aligned(end, alignment))


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """`size` rounded up to the alignment."""
    return -(-size // alignment) * alignment


def weights(release: Release, dtype: str, residency: str) -> dict[str, int]:
    """Allocation → bytes: "layers" and "ends" when resident; "layer slots", "norm" and "head rows" when streamed."""
    layers = [buffer(release.layer(i), dtype).bytes for i in range(len(release.model.layers))]
    ends = release.ends()
    if residency == "resident":
        return {"layers": sum(layers), "ends": buffer(ends, dtype).bytes}
    small = {name: located for name, located in ends.items() if located.spec.role not in ("embed", "head")}
    head = aligned(number.size(dtype, min(HEAD_ROWS, release.model.vocab) * release.model.hidden))
    return {"layer slots": min(READ_AHEAD, len(layers)) * max(layers), "norm": buffer(small, dtype).bytes, "head rows": head}


def state(model: Model, dtype: str, *, pages: int, page_size: int, sequences: int, chunk: int, context: int) -> list[StatePool]:
    """Every pool of the state manager; a step brings at most `chunk` new tokens of a sequence, which has at most `context`."""
    pools = []
    for layer in model.layers:
        for spec in layer_state(layer, dtype):
            if spec.grows:
                assert page_size % spec.every == 0, f"a page of {page_size} tokens does not hold whole entries of {spec.every}"
                entries: tuple[int, ...] = (pages, page_size // spec.every)
            else:
                entries = (sequences,) if spec.window is None else (sequences, spec.ring(chunk, context))
            pools.append(StatePool(layer=layer.index, spec=spec, shape=(*entries, *spec.shape)))
    return pools


def layer_state(layer: Layer, dtype: str) -> Iterator[StateSpec]:
    """What one layer keeps between steps."""
    for _, part in layer.parts():
        yield from parts().get(part.kind).state(part, dtype)


def page_unit(model: Model) -> int:
    """Tokens that a page must be a multiple of, so that it holds whole entries of every state."""
    return lcm(*(spec.every for layer in model.layers for spec in layer_state(layer, model.dtype)), 1)


def state_bytes(model: Model, dtype: str, *, chunk: int, context: int) -> tuple[float, int]:
    """(bytes for each token, bytes for each sequence whatever its length)."""
    token, sequence = 0.0, 0
    for layer in model.layers:
        for spec in layer_state(layer, dtype):
            if spec.grows:
                token += spec.entry_bytes / spec.every
            else:
                sequence += spec.entry_bytes * (1 if spec.window is None else spec.ring(chunk, context))
    return token, sequence


def pages_for(tokens: int, page_size: int) -> int:
    """Pages that hold `tokens`."""
    return -(-tokens // page_size)


def workspace(release: Release, dtype: str, vision: bool = False) -> int:
    """Bytes of the one buffer that packed weights are decoded into: the most that one operator call needs."""
    layers = [(layer, release.layer(layer.index)) for layer in release.model.layers]
    text = most_decoded(layers, release.ends(), release.model.hidden, dtype, lambda located: located.spec.shape)
    return max(text, tower_decoded(release, dtype) if vision else 0)


def tower_decoded(release: Release, dtype: str) -> int:
    """The same for the tower that reads images, which is whole on its card."""
    encoder, most = release.model.encoder, 0
    assert encoder is not None
    for index, place, part in encoder.places():
        within = place if index is None else f"layers.{index}.{place}"
        most = max(most, _decoded(release.vision, within, part, encoder.hidden, dtype, lambda located: located.spec.shape))
    return most


def most_decoded(
    layers: Iterable[tuple[Layer, Mapping[str, Located]]], ends: Mapping[str, Located], hidden: int, dtype: str, shape_of: ShapeOf
) -> int:  # fmt: skip
    """The same for these layers; `shape_of` gives the shape of a weight on one card."""
    needs = [_decoded(weights, place, part, hidden, dtype, shape_of) for layer, weights in layers for place, part in layer.parts()]
    whole = [aligned(number.size(dtype, prod(shape_of(located)))) for located in ends.values() if _packed(located)]
    return max([0, *needs, *whole])


def _decoded(weights: Mapping[str, Located], place: str, part: PartSpec, hidden: int, dtype: str, shape_of: ShapeOf) -> int:
    most = 0
    for phase in PHASES:
        for site in parts().get(part.kind).sites(part, hidden, phase):
            names = (f"{place}.{name}" for name in site.weights)
            most = max(most, _site_bytes([weights[name] for name in names if name in weights], dtype, shape_of))
    return most


def _site_bytes(needed: Iterable[Located], dtype: str, shape_of: ShapeOf) -> int:
    total = 0
    for located in needed:
        if _packed(located):
            shape = shape_of(located)
            total += aligned(number.size(dtype, prod(shape[1:] if located.spec.role == "expert" else shape)))
    return total


def _packed(located: Located) -> bool:
    return formats().get(located.pieces[0][1].format).packed
