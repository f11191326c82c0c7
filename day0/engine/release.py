"""A released checkpoint understood: its family, its model, and where every weight of the model lies on disk. Needs no torch."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

from day0.checkpoint.config import Config
from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.kept import Heads
from day0.engine.declared import declare
from day0.engine.nearest import absurd, advice
from day0.engine.pieces import Pieces, Source, Weights, weights
from day0.engine.pruned import with_own_experts
from day0.engine.specs import distinct, encoder_specs, end_specs, layer_specs, specs
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.format import Stored
from day0.spec.model import Model, TensorSpec
from day0.spec.names import Piece, numbers
from day0.spec.record import record
from day0.spec.registry import families


@record
class Located:
    """One weight of the model and the checkpoint tensors it is read from."""

    name: str  #: canonical, "layers.3.ffn.experts.gate"
    spec: TensorSpec  #: what it must be
    pieces: Sequence[tuple[Piece, Stored]]  #: one, or one for each expert in order

    @property
    def alike(self) -> list[tuple[Stored, int]]:
        """The checkpoint weights that it is read from: the first of each kind, and how many are alike."""
        return self.pieces.alike() if isinstance(self.pieces, Pieces) else [(stored, 1) for _, stored in self.pieces]

    @property
    def format(self) -> str:
        """Format of its pieces, "mixed" when they differ."""
        kinds = {stored.format for stored, _ in self.alike}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    @property
    def stacked(self) -> bool:
        """Whether its experts are stored one by one."""
        return self.pieces[0][0].expert is not None

    @property
    def whole(self) -> tuple[int, ...]:
        """Shape of one piece before it is cut; the last axis is what the model says where headers leave it open."""
        stored, last = self.pieces[0][1], self.spec.shape[-1] if self.spec.shape else 0
        open_end = stored.slack and 0 <= stored.shape[-1] - last <= stored.slack
        return (*stored.shape[:-1], last) if open_end else stored.shape

    @property
    def odd(self) -> Stored | None:
        """The first piece that is not stored as the first one is."""
        kinds = {_layout(stored) for stored, _ in self.alike}
        first = _layout(self.pieces[0][1])
        return next((stored for _, stored in self.pieces if _layout(stored) != first), None) if len(kinds) > 1 else None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape that the pieces give."""
        piece, _ = self.pieces[0]
        shape = list(self.whole)
        if piece.cut:
            if piece.cut.padded and prod(shape) >= self.spec.count:
                return self.spec.shape
            shape[piece.cut.axis] //= piece.cut.of
            if piece.cut.transpose:
                shape[-2:] = shape[:-3:-1]
        return (len(self.pieces), *shape) if self.stacked else tuple(shape)

    @property
    def fits(self) -> bool:
        """Whether that is the shape the model needs; releases differ in axes of length one."""
        found, needed = ([size for size in shape if size != 1] for shape in (self.shape, self.spec.shape))
        return found == needed


class Release:
    """A checkpoint, the family that recognises it, and the model that its configuration describes."""

    def __init__(self, checkpoint: Checkpoint, family: Family, model: Model) -> None:
        self.checkpoint, self.family = checkpoint, family
        self.model = family.fit(model, checkpoint.stored) if family.fit else model
        self.where, self.name = checkpoint.source.where, checkpoint.source.name
        self.tensors: dict[str, Located] = {}
        self.pruned: dict[int, int] = {}  # layer whose tensors hold another number of experts → the number that the configuration says
        self.missing: list[str] = []  # canonical names that no checkpoint tensor gives
        self.prediction: list[str] = []  # checkpoint names of extra prediction layers
        self.towers: dict[str, list[str]] = {tower.name: [] for tower in self.model.towers}  # checkpoint names of each tower
        self.unclaimed: list[str] = []  # checkpoint names that nothing of the model uses
        self.vision: dict[str, Located] = {}  # weights of the tower for images, by their name within it
        self.blind: list[str] = []  # names of those that no checkpoint tensor gives
        self._locate()

    @classmethod
    def open(cls, place: Path | str, heads: Heads | None = None) -> "Release":
        """Read configuration and headers; Day0Error when no family recognises the configuration. `heads` as for `Checkpoint.open`."""
        return cls.of(Checkpoint.open(place, heads=heads))

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Release":
        """Of an opened checkpoint; where its configuration is alone, with the weights that the family declares (`Checkpoint.config_alone`)."""
        _, family = recognise(checkpoint.config, checkpoint)
        model = family.read(checkpoint.config)
        if checkpoint.config_alone:
            checkpoint, family = declare(checkpoint, family, model)
        return cls(checkpoint, family, model)

    @property
    def folder(self) -> Path:
        """The folder that holds the weights; Day0Error where they are not on this machine."""
        return self.checkpoint.folder

    def layer(self, index: int) -> dict[str, Located]:
        """Weights of one layer, by their name within it ("mixer.q")."""
        return {name: self.tensors[full] for name, full in _names(index, self.model) if full in self.tensors}

    def ends(self) -> dict[str, Located]:
        """Weights outside the layers."""
        return {name: self.tensors[name] for name, _ in end_specs(self.model) if name in self.tensors}

    def require_complete(self) -> None:
        """Day0Error unless every weight of the model is there, in its shape, in one format."""
        self.checkpoint.require_sound()
        _require_present(self.missing, self.where)
        self._require_fitting(self.tensors)

    def require_vision(self) -> None:
        """Day0Error unless there is a tower for images that runs, and all of its weights are there."""
        if self.model.encoder is None:
            hint = "the family recognises a tower and cannot run it" if self.model.towers else "it reads text alone"
            raise Day0Error(f"{self.name} takes no images", self.where, hint=hint)
        if self.checkpoint.config_alone:
            raise Day0Error("a configuration alone does not tell the weights of a tower", self.where, hint="download the release")
        _require_present(self.blind, self.where)
        self._require_fitting(self.vision)

    def _require_fitting(self, tensors: dict[str, Located]) -> None:
        for name, located in tensors.items():
            if not located.fits or located.format == "mixed":
                source = located.pieces[0][1].name
                found = f"{list(located.shape)} {located.format}"
                expected = list(located.spec.shape)
                raise Day0Error(f"weight {name} should be {expected}, found {found}", source, hint="run `day0 inspect` on it")
            if located.odd is not None:
                problem = f"weight {name}: {located.odd.name} is not stored as {located.pieces[0][1].name} is"
                raise Day0Error(problem, self.where, hint="run `day0 inspect` on it")

    def _locate(self) -> None:
        found = self._claim()
        self.model, self.pruned = with_own_experts(self.model, found)
        self.tensors, self.missing = self._place(found, specs(self.model))
        self._see()

    def _claim(self) -> dict[str, list[Source]]:
        """Canonical name → what it comes from; fills `unclaimed` and what is apart."""
        apart = [(tower.prefixes, self.towers[tower.name]) for tower in self.model.towers]
        if self.model.prediction:
            apart.append((self.model.prediction.prefixes, self.prediction))
        unused, match = [re.compile(pattern) for pattern in self.model.unused], self.family.names.matcher()
        written = self.family.names.numbers | numbers(*self.model.unused, *(prefix for prefixes, _ in apart for prefix in prefixes))
        found: dict[str, list[Source]] = {}
        for some in weights(self.checkpoint.stored, written):
            name = some.first.name
            group = next((group for prefixes, group in apart if name.startswith(prefixes)), None)
            if group is not None:
                group.extend(some.names())
            elif not any(pattern.search(name) for pattern in unused):
                for one in some.by_expert(match):
                    claimed = match(one.first.name)
                    if claimed is None:
                        self.unclaimed.extend(one.names())
                    for target, piece in claimed or ():
                        found.setdefault(target, []).append(Source(piece, one))
        return found

    def _place(
        self, found: dict[str, list[Source]], wanted: Iterable[tuple[str, TensorSpec]]
    ) -> tuple[dict[str, Located], list[str]]:  # fmt: skip
        """(weights that are there, names of those that are not whole); what is left over becomes unclaimed."""
        tensors: dict[str, Located] = {}
        missing = []
        for name, spec in wanted:
            pieces = Pieces(found.pop(name, ()))
            if not pieces or (pieces[0][0].expert is not None and pieces.experts() != list(range(spec.shape[0]))):
                missing.append(name)
            if pieces:
                tensors[name] = Located(name=name, spec=spec, pieces=pieces)
        left = {source.weights.first.name: source for sources in found.values() for source in sources}
        used = {first.name for located in tensors.values() for first, _ in located.alike} if left else set()
        self.unclaimed += sorted(name for first, source in left.items() if first not in used for name in source.weights.names())
        return tensors, missing

    def _see(self) -> None:
        """Place the weights of the tower for images."""
        names = self.family.towers.get("vision")
        if self.model.encoder is None or names is None or self.checkpoint.config_alone:
            return
        match, found = names.matcher(), dict[str, list[Source]]()
        for name in self.towers["vision"]:
            claimed = match(name)
            if claimed is None:
                self.unclaimed.append(name)
            for target, piece in claimed or ():
                found.setdefault(target, []).append(Source(piece, Weights(self.checkpoint.stored[name])))
        self.vision, self.blind = self._place(found, encoder_specs(self.model.encoder))


def _require_present(missing: list[str], where: str) -> None:
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise Day0Error(f"weight {missing[0]}{more} is not in the checkpoint", where, hint="run `day0 inspect` on it")


def _layout(stored: Stored) -> tuple[object, ...]:
    """What must be equal for weights to be stacked."""
    kept = stored.kept
    parts = ((part, header.shape, header.dtype) for part, header in kept.items()) if len(kept) > 1 else ()
    return (stored.format, stored.shape, stored.block, *parts)


def recognise(config: Config, checkpoint: Checkpoint | None = None) -> tuple[str, Family]:
    """The family file whose `model_type` this is; Day0Error when there is none, with the closest one where there is a checkpoint."""
    kind = config.str("model_type", None)
    _refuse_absurd(config)
    for name, family in families().items():
        if kind in family.recognises:
            return name, replace(family, read=_located(family.read, name))
    known = sorted(k for _, family in families().items() for k in family.recognises)
    hint = advice(checkpoint) if checkpoint else f"known: {', '.join(known)}"
    raise Day0Error(f"no family reads model_type {kind!r}", config.path, hint=hint)


def _located(read: Callable[[Config], Model], family: str) -> Callable[[Config], Model]:
    """`read` that fails with a Day0Error alone: sizes of nought or beyond all bounds are found by the arithmetic that they spoil."""

    def careful(config: Config) -> Model:
        try:
            model = read(config)
            negative = next((f"{name} {list(spec.shape)}" for name, spec in distinct(model) if min(spec.shape, default=0) < 0), None)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError, MemoryError) as error:
            problem = f"{family} cannot make sense of the configuration: {type(error).__name__} {error}"[:200]
            raise Day0Error(problem, config.path, hint="a value in it is not of the kind or size that the family expects") from error
        if negative:
            raise Day0Error(f"{family} makes a weight {negative} of the configuration", config.path, hint="a number in it is negative")
        return model

    return careful


def _refuse_absurd(config: Config) -> None:
    """A layer is a record in memory: a number of them that no release has is an error before they are made."""
    if found := absurd(config.data):
        raise Day0Error(found, config.path)


def _names(index: int, model: Model) -> Iterator[tuple[str, str]]:
    for name, _ in layer_specs(model.layers[index], model.hidden):
        yield name, f"layers.{index}.{name}"
