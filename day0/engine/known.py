"""What is told of a release whose model is known: by its family, or by the usual words of a configuration that is alone. Needs no torch."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.words import Words
from day0.engine import anatomy, structure, usual
from day0.engine.declared import declare
from day0.engine.expert_layout import expert_layouts
from day0.engine.release import Release
from day0.engine.sources import sources
from day0.engine.specs import layer_specs
from day0.spec.family import Family
from day0.spec.names import Names
from day0.spec.reports.inspect import LayerRow, ParameterRow, StructureRow

WHOLE = {"vocab": "vocab", "hidden": "hidden", "context": "context", "dtype": "dtype", "tied": "tied"}  # figure → field of ModelRow


class Known:
    """A release and its model; `least`, `most` and `open` where the usual words were all there was to read."""

    def __init__(self, release: Release, guess: usual.Usual | None = None) -> None:
        self.release, self.guess = release, guess
        self.alone = release.checkpoint.config_alone
        self.words = guess.words if guess else Words.of(release.checkpoint.config.data)

    @cached_property
    def sources(self) -> Mapping[str, Mapping[str, list[str]]]:
        """Kind of layer, or "" for the whole → figure → configuration keys."""
        return {"": self.guess.words.used} if self.guess else sources(self.release.family, self.release.checkpoint.config, self.release.model)

    def parameters(self) -> ParameterRow:
        """Counts; what a configuration that is alone does not declare is estimated from its keys."""
        row = anatomy.parameters(self.release)
        if self.alone:
            towers = {name: size for name, _, size in towers_of(self.release.checkpoint.config.data)}
            row = row.model_copy(update={"prediction": self._prediction(), "towers": towers})
        return row.model_copy(update={"least": self.guess.least, "most": self.guess.most}) if self.guess else row

    def roles(self) -> dict[str, str]:
        """Weight → what it is for."""
        return anatomy.roles(self.release)

    def layers(self) -> list[LayerRow]:
        """One row for each layer of the stack."""
        return anatomy.layers(self.release)

    def structure(self) -> StructureRow:
        """Kinds of layers and what goes between them."""
        apart, open = set(self.release.prediction), self.guess.open if self.guess else ()
        layouts = [] if self.alone else expert_layouts(self.release.checkpoint.stored, apart)
        return structure.describe(self.release.model, self.sources, layouts=layouts, prediction_stored=bool(apart), open=open)

    def evidence(self) -> dict[str, str]:
        """Figure of the report → where it comes from."""
        keys = self.sources.get("", {})
        found = {f"model.{field}": _keys(keys[figure]) for figure, field in WHOLE.items() if figure in keys}
        found |= {"layers": _keys(keys["layers"])} if "layers" in keys else {}
        tensors = len(self.release.checkpoint.headers)
        declared = "shapes that the configuration gives"
        counted = declared if self.alone else f"{declared}; checks D0302 and D0305 compare them with the headers of {tensors} tensors"
        found["parameters.total"] = found["parameters.active"] = counted
        if self.alone:
            found["bytes"] = "the same shapes in the types and formats that the configuration states: an estimate"
            found["parameters.prediction"] = "estimated: as many weights as the last layer, and a map from two streams to one"
            for name, key, _ in towers_of(self.release.checkpoint.config.data):
                found[f"parameters.towers.{name}"] = f"estimated from {key}: blocks of attention and network, and nothing around them"
            return found
        for name in ("embed", "head"):
            if name in self.release.tensors:
                stored = self.release.tensors[name].pieces[0][1]
                found[f"structure.tables.{name}"] = f"tensor {stored.name} {list(stored.shape)}"
        found["bytes"] = f"headers of {len(self.release.checkpoint.shards)} files"
        return found

    def _prediction(self) -> int:
        """Weights of prediction layers as the last layer has them, and the map from stream and embedding to one stream."""
        model = self.release.model
        count = model.prediction.count if model.prediction else 0
        last = sum(spec.count for _, spec in layer_specs(model.layers[-1], model.hidden))
        return count * (last + 2 * model.hidden**2)


def by_usual_words(checkpoint: Checkpoint) -> Known | None:
    """A configuration that is alone and that no family reads; None where the usual words do not give a model."""
    guess = usual.read(checkpoint.config.data)
    if guess is None:
        return None
    family = Family(recognises=frozenset(), read=lambda _config: guess.model, names=Names(layer="model.layers.{i}.", tensors={}, ends={}))
    return Known(Release(*declare(checkpoint, family, guess.model), guess.model), guess)


def towers_of(data: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """(tower, configuration key, weights of its blocks) of towers that a configuration describes in the usual words."""
    for key, value in data.items():
        name = next((name for name in ("vision", "audio") if name in key), None)
        if name and isinstance(value, Mapping):
            width, depth, inner = (_first(value, *keys) for keys in TOWER)
            if width and depth:
                yield name, key, depth * (4 * width * width + 2 * width * (inner or 4 * width))


TOWER = (
    ("hidden_size", "vt_hidden_size", "embed_dim", "width", "d_model"),
    ("num_hidden_layers", "vt_num_hidden_layers", "depth", "layers", "encoder_layers", "n_layers"),
    ("intermediate_size", "vt_intermediate_size", "mlp_dim", "encoder_ffn_dim"),
)


def _first(data: Mapping[str, Any], *keys: str) -> int | None:
    return next((data[key] for key in keys if type(data.get(key)) is int and 0 < data[key] < 1 << 24), None)


def _keys(keys: list[str]) -> str:
    return f"config.json: {', '.join(keys)}"
