"""A release that no family reads, by the names and shapes of its tensors and the usual words of its configuration. Needs no torch.

Nothing of it is certain but the sizes; what neither names nor words explain is said in `StructureRow.open`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.outline import Outline, outline
from day0.checkpoint.words import Words
from day0.engine import usual
from day0.engine.expert_layout import expert_layouts
from day0.engine.footprint import layer_state, state_bytes
from day0.engine.specs import layer_specs
from day0.engine.structure import growth
from day0.engine.vocabulary import PLACES, Place, Sense, sense
from day0.spec.model import Layer
from day0.spec.reports.inspect import ExpertsRow, KindRow, LayerRow, ParameterRow, Scalar, StructureRow, TableRow

DEFINITION = (
    "total: elements of all weights outside towers and prediction layers, because no family reads this release; scales are left out where "
    "a format reads them. active: of what lies in experts the share that the configuration chooses for a token"
)
WHOLE = ("hidden", "vocab", "context", "layers")
Signature = tuple[tuple[str, int, tuple[int, ...]], ...]  # (name within a layer, how many, shape), in order


class Likely:
    """What is likely of a release, from its headers."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.usual = usual.read(checkpoint.config.data)
        self.words = self.usual.words if self.usual else Words.of(checkpoint.config.data)
        companions = {part.name for weight in checkpoint.stored.values() for kind, part in weight.parts.items() if kind != "data"}
        unread = [name for name in checkpoint.headers if name not in companions and name not in checkpoint.stored]
        taken = {weight.parts["data"].name for weight in checkpoint.stored.values()}
        self.unread = [name for name in unread if name not in taken]
        self.outline: Outline = outline([*checkpoint.stored, *self.unread], self.words.int("layers"))

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a weight; as stored where no format reads it."""
        weight = self.checkpoint.stored.get(name)
        return weight.shape if weight else self.checkpoint.headers[name].shape

    def elements(self, names: list[str] | tuple[str, ...]) -> int:
        """Of several weights."""
        return sum(prod(self.shape(name)) for name in names)

    @cached_property
    def signatures(self) -> dict[int, Signature]:
        """Layer → what it holds; the first of weights whose names differ only in numbers gives the shape of all."""
        return {
            index: tuple(sorted((within, len(names), self.shape(names[0])) for within, names in row.items()))
            for index, row in self.outline.rows.items()
        }

    @cached_property
    def kinds(self) -> dict[Signature, "Kind"]:
        """Kinds of layers, in order of appearance."""
        found: dict[Signature, Kind] = {}
        names: Counter[str] = Counter()
        for index, signature in self.signatures.items():
            if signature not in found:
                kind = Kind(signature, self, index)
                names[kind.stem] += 1
                kind.name = kind.stem if names[kind.stem] == 1 else f"{kind.stem} {names[kind.stem]}"
                found[signature] = kind
        return found

    def parameters(self) -> ParameterRow:
        """Sums of shapes; a bracket where no format reads some of them."""
        rows = [(self.kinds[signature], signature) for signature in self.signatures.values()]
        total = self.elements(self.outline.ends) + sum(kind.total for kind, _ in rows)
        idle = [kind.total - kind.active if kind.active is not None else None for kind, _ in rows]
        packed = sum(self.checkpoint.headers[name].bytes for name in self.unread)
        return ParameterRow(
            total=total,
            active=None if None in idle or not rows else total - sum(one for one in idle if one is not None),
            least=total - self.elements(self.unread) if self.unread else None,
            most=total + 2 * packed if self.unread else None,  # two numbers in each byte
            prediction=self.elements(self.outline.prediction),
            towers={tower: self.elements(names) for tower, names in self.outline.towers.items()},
            definition=DEFINITION,
        )

    def layers(self) -> list[LayerRow]:
        """Rows of the stack."""
        return [self.kinds[signature].row(index, self.outline.rows[index]) for index, signature in self.signatures.items()]

    def structure(self) -> StructureRow:
        """Kinds of layers, tables, and what is open."""
        counts = Counter(self.signatures.values())
        model = self.usual.model if self.usual else None
        token, sequence = state_bytes(model, model.dtype, chunk=1, context=model.context) if model else (0.0, 0)
        return StructureRow(
            kinds=[kind.describe(counts[signature]) for signature, kind in self.kinds.items()],
            tables=[*self.tables()],
            index_sharing={}, kv_sharing={}, residual_blocks=[],
            expert_layouts=expert_layouts(self.checkpoint.stored, set(self.outline.prediction)),
            prediction_stored=bool(self.outline.prediction),
            token_bytes=token, sequence_bytes=sequence,
            open=[*self.open()],
        )  # fmt: skip

    def evidence(self) -> dict[str, str]:
        """Figure of the report → where it comes from."""
        found = {f"model.{figure}": f"config.json: {', '.join(keys)}" for figure, keys in self.words.used.items() if figure in WHOLE}
        found["parameters.total"] = f"shapes of {len(self.checkpoint.stored)} weights in the headers of {len(self.checkpoint.shards)} files"
        found["bytes"] = f"headers of {len(self.checkpoint.shards)} files"
        found["structure"] = f"names and shapes of tensors below {self.outline.prefix}; words of the configuration"
        if "top_k" in self.words.used:
            found["parameters.active"] = f"the same, and config.json: {', '.join(self.words.used['top_k'])}"
        return found

    def roles(self) -> dict[str, str]:
        """Weight → what it is for, as far as its name tells; of the others nothing."""
        found = dict.fromkeys(self.outline.prediction, "prediction")
        for names in self.outline.towers.values():
            found |= dict.fromkeys(names, "towers")
        for index, row in self.outline.rows.items():
            senses = self.kinds[self.signatures[index]].senses
            for within, names in row.items():
                if senses[within].expert:
                    found |= dict.fromkeys(names, "expert")
        return found

    def tables(self) -> Iterator[TableRow]:
        """Matrices outside the layers with as many columns as the model is wide."""
        hidden = self.words.int("hidden")
        for name in self.outline.ends:
            shape = self.shape(name)
            if len(shape) == 2 and shape[1] == hidden:
                yield TableRow(name=name, rows=shape[0], width=shape[1], parameters=prod(shape))

    def open(self) -> Iterator[str]:
        """Tensors that neither names nor words explain, and layers whose mixer is not known."""
        where: dict[tuple[str, tuple[int, ...]], int] = {}
        for signature in self.signatures.values():
            for within, shape in self.kinds[signature].strange:
                where[within, shape] = where.get((within, shape), 0) + 1
        for (within, shape), count in where.items():
            yield f"{within} {list(shape)} in {count} layers: what it does is not known"
        for kind in self.kinds.values():
            if kind.mixer is None and kind.has("mixer"):
                yield f"what mixes tokens in layers of kind {kind.name}: no known mixer has such tensors"
        if self.unread:
            yield f"{len(self.unread)} tensors that no format reads: how many weights they hold is not known"


class Kind:
    """Layers with the same tensors in the same shapes."""

    def __init__(self, signature: Signature, release: Likely, index: int) -> None:
        self.signature, self.release, self.index, self.name = signature, release, index, ""
        self.senses: dict[str, Sense] = {within: sense(within) for within, _, _ in signature}
        guess = release.usual
        self.usual: Layer | None = guess.model.layers[index] if guess and index < len(guess.model.layers) else None
        self.places: dict[str, Place] = {within: self.senses[within].place or self._by_shape(shape) for within, _, shape in signature}

    @property
    def stem(self) -> str:
        """Mixer and network by name."""
        mixer = self.mixer or ("?" if self.has("mixer") else None)
        return " + ".join(part for part in (mixer, self.ffn) if part) or "?"

    def has(self, place: str) -> bool:
        """Whether any matrix is in a place."""
        return any(self.places[within] == place and len(shape) > 1 for within, _, shape in self.signature)

    def _by_shape(self, shape: tuple[int, ...]) -> Place:
        """Where the usual words want such a matrix."""
        return next((place for place in PLACES if shape in self._wanted(f"{place}.")), "residual")

    @cached_property
    def mixer(self) -> str | None:
        """By names, else by shapes."""
        canonical = {name for one in self.senses.values() for name in one.canonical}
        named = next((kind for kind, needed in MIXERS if needed <= canonical), None)
        return named or (self.usual.mixer.kind if self.usual and self.usual.mixer and self._fits("mixer.") else None)

    @cached_property
    def ffn(self) -> str | None:
        """Experts, a dense network, or nothing."""
        return "moe_ffn" if self.routed else "dense_ffn" if self.has("ffn") else None

    @cached_property
    def routed(self) -> int:
        """Experts: as many as there are of one name, or the first axis of a stack."""
        banks = [(count, shape) for within, count, shape in self.signature if self.senses[within].expert]
        return max((count if count > 1 else shape[0] for count, shape in banks if count > 1 or len(shape) > 2), default=0)

    @property
    def _shaped(self) -> set[tuple[int, ...]]:
        """Shapes of matrices, either way round."""
        shapes = [shape for _, _, shape in self.signature if len(shape) == 2]
        return {*shapes, *(shape[::-1] for shape in shapes)}

    def _wanted(self, prefix: str) -> list[tuple[int, ...]]:
        """Shapes of weights by the usual words, those of one expert for all."""
        hidden = self.release.words.int("hidden")
        found = layer_specs(self.usual, hidden) if self.usual else ()
        shapes = ((spec.shape, spec.role == "expert") for name, spec in found if name.startswith(prefix))
        return [one for shape, expert in shapes for one in ((shape, shape[1:]) if expert else (shape,))]

    def _fits(self, prefix: str) -> bool:
        """Whether every matrix that the usual words want is there."""
        return self._shaped >= {shape for shape in self._wanted(prefix) if len(shape) == 2}

    @property
    def strange(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name within a layer, shape) of what neither a known name nor a shape that is still wanted in its place explains."""
        found = []
        for place in PLACES:
            here = [(within, shape) for within, _, shape in self.signature if self.places[within] == place]
            wanted = Counter(self._wanted(f"{place}."))
            wanted.subtract(shape for within, shape in here if self.senses[within].known)
            for within, shape in here:
                if not self.senses[within].known:
                    turned = shape if wanted[shape] > 0 else shape[::-1]
                    wanted[turned] -= 1
                    found += [(within, shape)] if wanted[turned] < 0 else []
        return found

    @property
    def total(self) -> int:
        """Weights of one layer."""
        return sum(count * prod(shape) for _, count, shape in self.signature)

    @property
    def active(self) -> int | None:
        """Weights that one token reads; None where nothing says how many experts are chosen."""
        top_k = self.release.words.int("top_k")
        if self.routed and not top_k:
            return None
        banks = sum(count * prod(shape) for within, count, shape in self.signature if self.senses[within].expert)
        return self.total - (banks - banks * top_k // self.routed if self.routed and top_k < self.routed else 0)

    def row(self, index: int, held: Mapping[str, list[str]]) -> LayerRow:
        """The layer's figures."""
        stored, headers = self.release.checkpoint.stored, self.release.checkpoint.headers
        names = [name for names in held.values() for name in names]
        return LayerRow(
            index=index, kind=self.name, mixer=self.mixer, ffn=self.ffn, residual=None, parameters=self.total, active=self.active,
            bytes=sum(stored[name].bytes if name in stored else headers[name].bytes for name in names),
            formats=sorted({stored[name].format for name in names if name in stored}),
            experts=self.routed or None, top_k=self.release.words.int("top_k") if self.routed else None,
        )  # fmt: skip

    def describe(self, count: int) -> KindRow:
        """Tensors with their shapes, under the place they are in."""
        row = self.release.outline.rows[self.index]
        figures: dict[str, dict[str, Scalar]] = {place: {} for place in PLACES}
        for within, several, shape in self.signature:
            times = f"{several} × " if several > 1 else ""
            figures[self.places[within]][within] = f"{times}{list(shape)}"
        for place, kind in (("mixer", self.mixer), ("ffn", self.ffn)):
            figures[place] = {**({"kind": kind} if kind else {}), **figures[place]}
        state = [growth(spec) for spec in layer_state(self.usual, "bfloat16")] if self._as_usual and self.usual else []
        return KindRow(
            name=self.name, count=count, embedding={}, experts=self.experts(), state=state,
            mixer=figures["mixer"], ffn=figures["ffn"], residual=figures["residual"],
            sources={f"{self.places[within]}.{within}": row[within][:1] for within, _, _ in self.signature},
        )  # fmt: skip

    @property
    def _as_usual(self) -> bool:
        """Whether the mixer is the one that the usual words describe, with its shapes."""
        return bool(self.usual and self.usual.mixer and self.usual.mixer.kind == self.mixer and self._fits("mixer."))

    def experts(self) -> ExpertsRow | None:
        """Counts by the tensors; the rule is not known."""
        if not self.routed:
            return None
        words = self.release.words
        return ExpertsRow(
            routed=self.routed, top_k=words.int("top_k"), width=words.int("expert_width"), shared=words.int("shared", 0),
            zero=words.int("zero_experts", 0), latent=words.int("expert_hidden"), router=None,
        )  # fmt: skip


MIXERS = (  # what only one kind of mixer has, by its canonical names
    ("mamba2", {"mixer.step_bias"}), ("gdn", {"mixer.qkvz"}), ("gdn", {"mixer.qkv", "mixer.z"}), ("kda", {"mixer.f_a"}),
    ("block_sparse", {"mixer.index_k"}), ("qsa", {"mixer.index_qk"}), ("dsa", {"mixer.indexer.k", "mixer.kv_a"}),
    ("compressed_attention", {"mixer.o_a", "mixer.o_b", "mixer.kv"}), ("mla", {"mixer.kv_a", "mixer.kv_b"}),
    ("lightning", {"mixer.qkv", "mixer.o_norm"}), ("gqa", {"mixer.q", "mixer.k", "mixer.v"}),
)  # fmt: skip
