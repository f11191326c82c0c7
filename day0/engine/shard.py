"""What one card holds of the weights: each tensor cut as its declaration says, laid out as the engine does. Needs no torch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from day0.engine import footprint
from day0.engine.release import Located
from day0.spec.model import TensorSpec
from day0.spec.placement import Heads, Placement, held
from day0.spec.record import record
from day0.spec.registry import formats
from day0.spec.rules import Padding, Rules


@record
class Problem:
    """Why a model cannot be cut so."""

    rule: str  #: heads, alignment, experts, ranks, nodes, layers, pages
    subject: str  #: what it is about
    expected: str  #: what would be legal
    found: str  #: what was asked


@dataclass(frozen=True)
class Cut:
    """A placement under an engine's rules, on cards of one architecture."""

    placement: Placement
    rules: Rules
    arch: str
    dtype: str  # compute type

    def buffer(self, weights: Mapping[str, Located]) -> footprint.Buffer:
        """How one card holds the weights of a layer (or of the ends)."""
        return footprint.buffer(weights, self.dtype, self.parts, self.rules.alignment)

    def parts(self, located: Located, dtype: str) -> list[footprint.Part]:
        """(part, type, shape) of a weight as one card holds it."""
        spec, rest = located.spec, footprint.at_rest(located, dtype)
        if self.rules.as_stored and spec.precision == "float32":
            rest = [(part, kind if part else located.pieces[0][1].parts["data"].dtype, shape) for part, kind, shape in rest]
        if self.whole and not self.rules.padding:
            return rest
        padding = self.padding(located)
        if padding and padding.bias and spec.role == "bias":
            rest = [(part, footprint.rest_dtype(spec.precision, padding.bias), shape) for part, _, shape in rest]
        grains = [grain(located, part, shape) for part, _, shape in rest]
        target = self.shape(spec, padding, max((step for axes in grains for axis, step in axes if spec.axes[axis : axis + 1] == "F"), default=1))
        return [(part, kind, _scaled(shape, axes, spec.shape, target)) for (part, kind, shape), axes in zip(rest, grains, strict=True)]

    @cached_property
    def whole(self) -> bool:
        """Whether one card holds everything."""
        return self.placement.stage == 1 and self.rules.vocab_multiple == 1

    def padding(self, located: Located) -> Padding | None:
        """The rule that rounds these experts up."""
        if located.spec.split != "expert":
            return None
        return next((rule for rule in self.rules.padding if rule.speaks_of(self.form(located), self.arch)), None)

    def form(self, located: Located) -> str:
        """Format of a bank of experts; biases have that of the matrices beside them."""
        return self.bank_format if located.spec.role == "bias" else located.pieces[0][1].format

    bank_format: str = ""  # format of the routed experts of the release

    def ranks(self, spec: TensorSpec) -> dict[int, int]:
        """Axis → ranks that cut it."""
        place = self.placement
        match spec.split:
            case "column":
                return {0: place.tp}
            case "row":
                return {len(spec.shape) - 1: place.tp}
            case "vocab":
                return {spec.axes.index("W"): place.tp}
            case "expert":
                return {0: place.ep} | ({spec.axes.index("F"): place.expert_tp} if "F" in spec.axes else {})
        return {}

    def shape(self, spec: TensorSpec, padding: Padding | None, step: int) -> tuple[int, ...]:
        """Shape of a weight on one card, padding included; `step` elements of F can only be cut together where they are padded."""
        sizes = list(spec.shape)
        for axis, ranks in self.ranks(spec).items():
            size = sizes[axis]
            if spec.split == "expert" and axis == 0:
                sizes[axis] = -(-(size + self.placement.redundant) // ranks)
            elif padding:
                sizes[axis] = -(-size // step // ranks) * step
            else:
                sizes[axis] = held(spec.heads, size, ranks)
            if spec.split == "vocab":
                sizes[axis] = _up(sizes[axis], self.rules.vocab_multiple)
        for axis, letter in enumerate(spec.axes) if padding else ():
            sizes[axis] = _up(sizes[axis], {"F": padding.width, "D": padding.hidden}.get(letter, 1)) if padding else sizes[axis]
        return tuple(sizes)

    def problems(self, located: Located) -> Iterator[Problem]:
        """What of a weight cannot be cut so."""
        spec = located.spec
        tp = self.placement.tp
        if spec.split in ("column", "row"):
            bad = [heads for heads in spec.heads if not heads.divides(tp)]
            yield from (_heads(heads, tp, spec.name) for heads in bad)
            if bad:
                return
        padded = self.padding(located) is not None
        for axis, ranks in self.ranks(spec).items():
            size = spec.shape[axis]
            if ranks == 1 or (spec.split == "expert" and axis == 0) or spec.split == "vocab" or padded:
                continue
            share = held(spec.heads, size, ranks)
            if not spec.heads and size % ranks:
                yield _ragged(spec, size, ranks, 1)
                continue
            for part, _, shape in footprint.at_rest(located, self.dtype):
                steps = [step for at, step in grain(located, part, shape) if at == axis]
                if any(share % step for step in steps):
                    yield _ragged(spec, size, ranks, max(steps))
                    break


def _heads(heads: Heads, tp: int, name: str) -> Problem:
    legal = ", ".join(str(degree) for degree in range(1, heads.count + 1) if heads.divides(degree))
    copies = f", or a multiple of {heads.count}" if heads.shared else ""
    return Problem(rule="heads", subject=name, expected=f"tp one of {legal}{copies}", found=f"{heads.count} heads over tp {tp}")


def _ragged(spec: TensorSpec, size: int, ranks: int, step: int) -> Problem:
    legal = [str(degree) for degree in range(1, min(size, 64) + 1) if size % degree == 0 and size // degree % step == 0]
    found = f"{size} over {ranks} ranks is {size / ranks:g}"
    return Problem(rule="alignment", subject=spec.name, expected=f"multiples of {step}: {', '.join(legal)} ranks", found=found)


def grain(located: Located, part: str, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """For each axis of a part: (axis of the weight that runs along it, elements of the weight in one step); (-1, 1) where none does."""
    spec, (piece, stored) = located.spec.shape, located.pieces[0]
    if not part:
        return [(axis, 1) for axis in range(len(shape))]
    lead = len(spec) - 2
    if lead and shape[:lead] != spec[:lead]:
        return [(-1, 1)] * len(shape)
    turned = formats().get(stored.format).turned != bool(piece.cut and piece.cut.transpose)
    order = (lead + 1, lead) if turned else (lead, lead + 1)
    inner = shape[lead:]
    axes = [*order, *[-1] * (len(inner) - 2)][: len(inner)]
    if len(inner) == 1:
        axes = [next((axis for axis in order if spec[axis] == inner[0]), -1)]
    found = [(axis, 1) for axis in range(lead)]
    for axis, size in zip(axes, inner, strict=True):
        block = stored.block[axis - lead] if part == "scale" and axis >= 0 and len(stored.block) > axis - lead else 0
        step = _step(spec[axis], size, block) if axis >= 0 else 0
        found.append((axis, step) if step else (-1, 1))
    return found


def _step(elements: int, size: int, block: int) -> int:
    """Elements in one step of an axis of `size` that runs along `elements`; 0 where one entry serves all."""
    if size <= 1 < elements and block < elements:
        return 0
    return block if block and -(-elements // block) == size else -(-elements // size)


def _scaled(shape: tuple[int, ...], axes: list[tuple[int, int]], whole: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    def along(size: int, axis: int, step: int) -> int:
        return size if axis < 0 or target[axis] == whole[axis] else -(-target[axis] // step)

    return tuple(along(size, axis, step) for size, (axis, step) in zip(shape, axes, strict=True))


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
