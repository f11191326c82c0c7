"""What a model is: layers made of parts, tables at both ends, and which words of its configuration said so."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from day0.spec.ops import Phase, Site
from day0.spec.placement import Heads
from day0.spec.record import record

if TYPE_CHECKING:
    from day0.spec.encoder import Encoder

Role = Literal["linear", "expert", "norm", "embed", "head", "router", "bias", "table", "conv"]
Split = Literal["none", "column", "row", "expert", "vocab"]


@record
class TensorSpec:
    """One weight that a checkpoint must hold."""

    name: str  #: canonical; relative to its part when a part says it, to the model in `Model.tensors`
    axes: str  #: one letter an axis (see `axes`); experts are one tensor stacked on E
    shape: tuple[int, ...]  #: elements along each axis
    role: Role  #: what it is used for
    split: Split = "none"  #: how tensor or expert parallelism cuts it; "none" is replicated
    precision: Literal["compute", "float32", "integer"] = "compute"  #: type at rest of an unpacked weight; integers are int64
    group: str = ""  #: weights of one group read the same input and lie side by side in memory, so that one call can read them all
    heads: tuple[Heads, ...] = ()  #: what lies along the axis that tensor parallelism cuts, in order; without, any element may end a part
    used: tuple[int, int] = (1, 1)  #: share that one token reads, as (chosen, of): (8, 256) for routed experts

    @property
    def count(self) -> int:
        """Elements."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def active(self) -> int:
        """Elements that one token reads."""
        chosen, of = self.used
        return self.count * chosen // of


@record
class PartSpec:
    """Base of the tagged unions `Layer.mixer`, `Layer.ffn` and `Layer.residual`: the tag is the file that defines the part."""

    @property
    def kind(self) -> str:
        """Name of the file in `parts/` and in `blocks/`."""
        return type(self).__module__.rsplit(".", 1)[-1]


@record
class Norm:
    """A normalisation over the last axis."""

    eps: float  #: added to the mean square (or variance)
    kind: Literal["rms", "layer"] = "rms"  #: root mean square, or mean and variance with a bias
    plus_one: bool = False  #: the stored weight is the difference from one


@record
class Layer:
    """One layer of the stack, and its edges to other layers."""

    index: int  #: position in the stack, from 0
    mixer: PartSpec | None  #: what mixes tokens
    ffn: PartSpec | None  #: what acts on each token alone
    residual: PartSpec  #: how both are added to the stream, with their norms
    index_source: int | None = None  #: layer whose index selection this layer reuses
    kv_source: int | None = None  #: layer whose keys and values this layer reads
    embedding: PartSpec | None = None  #: what is looked up by token ids and added to the stream before the sublayers

    def parts(self) -> Iterator[tuple[str, PartSpec]]:
        """(place, part) for the places "residual", "embedding", "mixer", "ffn" that are filled."""
        for place in ("residual", "embedding", "mixer", "ffn"):
            part = getattr(self, place)
            if part is not None:
                yield place, part


@record
class Prediction:
    """Extra prediction layers (multi-token prediction): recognised, counted apart, left out of the stack."""

    count: int  #: layers
    prefixes: tuple[str, ...]  #: of their checkpoint names, with the final dot


@record
class Tower:
    """What turns another modality into embeddings, connector included: counted apart, and loaded only when it is asked for."""

    name: str  #: "vision", "audio"
    prefixes: tuple[str, ...]  #: of its checkpoint names
    encoder: "Encoder | None" = None  #: what it computes; None where the family recognises it and does not run it


@record
class Model:
    """A decoder: table, layers, final norm, head."""

    family: str  #: file name in `families/`
    hidden: int  #: model width D
    vocab: int  #: rows of the embedding table
    layers: tuple[Layer, ...]  #: the stack, in order
    norm: Norm | None  #: before the head; None where the head reads what the residual ends in
    tied: bool  #: the head is the embedding table
    context: int  #: tokens the release says it was made for
    dtype: str  #: compute type of the release, "bfloat16"
    collapse: PartSpec | None = None  #: how several streams become one before the final norm, where that has weights
    embed_scale: float = 1.0  #: factor on embedding rows
    placeholders: tuple[int, ...] = ()  #: ids of images and videos that the release embeds as token 0 where none stands behind them
    logit_scale: float = 1.0  #: factor on logits
    prediction: Prediction | None = None  #: extra prediction layers
    towers: tuple[Tower, ...] = ()  #: of other modalities
    unused: tuple[str, ...] = ()  #: regular expressions of tensors that the release stores and that its own code never reads
    read_keys: Mapping[str, str]  #: config key → who read it
    unread_keys: tuple[str, ...] = ()  #: config keys that nobody read

    @property
    def encoder(self) -> "Encoder | None":
        """Of the tower for images; None where there is none that runs."""
        return next((tower.encoder for tower in self.towers if tower.name == "vision"), None)

    def ends(self) -> Iterator[TensorSpec]:
        """Weights outside the layers: "embed", "norm", "norm_bias" and, unless tied, "head"."""
        yield TensorSpec(name="embed", axes="WD", shape=(self.vocab, self.hidden), role="embed", split="vocab")
        if self.norm is not None:
            yield TensorSpec(name="norm", axes="D", shape=(self.hidden,), role="norm")
        if self.norm is not None and self.norm.kind == "layer":
            yield TensorSpec(name="norm_bias", axes="D", shape=(self.hidden,), role="bias")
        if not self.tied:
            yield TensorSpec(name="head", axes="WD", shape=(self.vocab, self.hidden), role="head", split="vocab")

    def end_sites(self, phase: Phase) -> Iterator[Site]:
        """Operator calls outside the layers."""
        head = "embed" if self.tied else "head"
        size = {"W": self.vocab, "D": self.hidden}
        yield Site(op="embedding", label="embed", phase=phase, sizes=size, weights=("embed",))
        if self.norm is not None:
            yield norm_site(self.norm, "norm", phase, {"D": self.hidden})
        yield Site(op="linear", label="head", phase=phase, sizes={"O": self.vocab, "I": self.hidden}, weights=(head,))


def norm_site(norm: Norm, label: str, phase: Phase, sizes: Mapping[str, int]) -> Site:
    """The call that applies `norm` with the weight `label`; the normalised axis is D."""
    op = "rms_norm" if norm.kind == "rms" else "layer_norm"
    return Site(op=op, label=label, phase=phase, sizes=sizes, options={"plus_one": norm.plus_one}, weights=(label,))
