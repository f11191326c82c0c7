"""A released checkpoint understood: its family, its model, and where every weight of the model lies on disk. Needs no torch."""

import re
from collections.abc import Iterator
from pathlib import Path

from day0.checkpoint.config import Config
from day0.checkpoint.folder import Checkpoint
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.format import Stored
from day0.spec.model import Layer, Model, TensorSpec
from day0.spec.names import Piece
from day0.spec.record import record
from day0.spec.registry import families, parts

MOST_LAYERS = 10_000


@record
class Located:
    """One weight of the model and the checkpoint tensors it is read from."""

    name: str  #: canonical, "layers.3.ffn.experts.gate"
    spec: TensorSpec  #: what it must be
    pieces: tuple[tuple[Piece, Stored], ...]  #: one, or one for each expert in order

    @property
    def format(self) -> str:
        """Format of its pieces, "mixed" when they differ."""
        kinds = {stored.format for _, stored in self.pieces}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    @property
    def stacked(self) -> bool:
        """Whether its experts are stored one by one."""
        return self.pieces[0][0].expert is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape that the pieces give."""
        piece, stored = self.pieces[0]
        shape = list(stored.shape)
        if piece.cut:
            shape[piece.cut.axis] //= piece.cut.of
            if piece.cut.transpose:
                shape[-2:] = shape[:-3:-1]
        return (len(self.pieces), *shape) if self.stacked else tuple(shape)


class Release:
    """A checkpoint, the family that recognises it, and the model that its configuration describes."""

    def __init__(self, checkpoint: Checkpoint, family: Family, model: Model) -> None:
        self.checkpoint, self.family = checkpoint, family
        self.model = family.fit(model, checkpoint.stored) if family.fit else model
        self.folder: Path = checkpoint.folder
        self.name = checkpoint.folder.resolve().name
        self.tensors: dict[str, Located] = {}
        self.missing: list[str] = []  # canonical names that no checkpoint tensor gives
        self.prediction: list[str] = []  # checkpoint names of extra prediction layers
        self.towers: dict[str, list[str]] = {tower.name: [] for tower in self.model.towers}  # checkpoint names of each tower
        self.unclaimed: list[str] = []  # checkpoint names that nothing of the model uses
        self._locate()

    @classmethod
    def open(cls, folder: Path) -> "Release":
        """Read configuration and headers; Day0Error when no family recognises the configuration."""
        checkpoint = Checkpoint.open(folder)
        _, family = recognise(checkpoint.config)
        return cls(checkpoint, family, family.read(checkpoint.config))

    def layer(self, index: int) -> dict[str, Located]:
        """Weights of one layer, by their name within it ("mixer.q")."""
        return {name: self.tensors[full] for name, full in _names(index, self.model) if full in self.tensors}

    def ends(self) -> dict[str, Located]:
        """Weights outside the layers."""
        return {name: self.tensors[name] for name, _ in end_specs(self.model) if name in self.tensors}

    def require_complete(self) -> None:
        """Day0Error unless every weight of the model is there, in its shape, in one format."""
        self.checkpoint.require_sound()
        if self.missing:
            more = f" and {len(self.missing) - 1} more" if len(self.missing) > 1 else ""
            raise Day0Error(f"weight {self.missing[0]}{more} is not in the checkpoint", self.folder, hint="run `day0 inspect` on it")
        for name, located in self.tensors.items():
            if located.shape != located.spec.shape or located.format == "mixed":
                source = located.pieces[0][1].name
                found = f"{list(located.shape)} {located.format}"
                expected = list(located.spec.shape)
                raise Day0Error(f"weight {name} should be {expected}, found {found}", source, hint="run `day0 inspect` on it")

    def _locate(self) -> None:
        apart = [(tower.prefixes, self.towers[tower.name]) for tower in self.model.towers]
        if self.model.prediction:
            apart.append((self.model.prediction.prefixes, self.prediction))
        unused = [re.compile(pattern) for pattern in self.model.unused]
        names: list[str] = []
        for name in self.checkpoint.stored:
            next((group for prefixes, group in apart if name.startswith(prefixes)), names).append(name)
        used = (name for name in names if not any(pattern.search(name) for pattern in unused))
        found, self.unclaimed = self.family.names.resolve(used)
        for name, spec in specs(self.model):
            pieces = found.pop(name, [])
            if not pieces or (pieces[0].expert is not None and [p.expert for p in pieces] != list(range(spec.shape[0]))):
                self.missing.append(name)
            if pieces:
                self.tensors[name] = Located(name=name, spec=spec, pieces=tuple((p, self.checkpoint.stored[p.source]) for p in pieces))
        self.unclaimed += sorted({piece.source for pieces in found.values() for piece in pieces})


def recognise(config: Config) -> tuple[str, Family]:
    """The family file whose `model_type` this is."""
    kind = config.str("model_type", None)
    _refuse_absurd(config)
    for name, family in families().items():
        if kind in family.recognises:
            return name, family
    known = sorted(k for _, family in families().items() for k in family.recognises)
    raise Day0Error(f"no family reads model_type {kind!r}", config.path, hint=f"known: {', '.join(known)}; see docs on adding one")


def _refuse_absurd(config: Config) -> None:
    """A layer is a record in memory: a number of them that no release has is an error before they are made."""
    for nested in (config.data, config.data.get("text_config")):
        for key in ("num_hidden_layers", "num_layers", "num_nextn_predict_layers"):
            count = nested.get(key) if isinstance(nested, dict) else None
            if isinstance(count, int | float) and count > MOST_LAYERS:
                raise Day0Error(f"{key} is {count:.4g}: no release has more than {MOST_LAYERS} layers", config.path)


def specs(model: Model) -> Iterator[tuple[str, TensorSpec]]:
    """(canonical name, weight) of everything the model must have."""
    yield from end_specs(model)
    for layer in model.layers:
        for name, spec in layer_specs(layer, model.hidden):
            yield f"layers.{layer.index}.{name}", spec


def end_specs(model: Model) -> Iterator[tuple[str, TensorSpec]]:
    """(name, weight) outside the layers; those of `Model.collapse` are called "collapse.…"."""
    for spec in model.ends():
        yield spec.name, spec
    if model.collapse is not None:
        for spec in parts().get(model.collapse.kind).tensors(model.collapse, model.hidden):
            yield f"collapse.{spec.name}", spec


def layer_specs(layer: Layer, hidden: int) -> Iterator[tuple[str, TensorSpec]]:
    """(name within the layer, weight)."""
    for place, part in layer.parts():
        for spec in parts().get(part.kind).tensors(part, hidden):
            yield f"{place}.{spec.name}", spec


def _names(index: int, model: Model) -> Iterator[tuple[str, str]]:
    for name, _ in layer_specs(model.layers[index], model.hidden):
        yield name, f"layers.{index}.{name}"
