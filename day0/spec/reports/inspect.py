"""What `day0 inspect` leaves: what a release is, where its bytes are, and whether the copy is sound."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import FindingRow, Input, Report, Strict

Scalar = str | int | float | bool


class ModelRow(Strict):
    """The release."""

    name: str = Field(description="name of its folder")
    folder: str = Field(description="absolute path of its folder, or its address")
    family: str | None = Field(description="file name in day0/families/; null when no family reads it")
    model_type: str | None = Field(description="as the configuration calls it")
    architectures: list[str] = Field(description="classes that the configuration names")
    dtype: str | None = Field(description="type that the release computes in; null when not known")
    context: int | None = Field(description="longest sequence that the release was made for, tokens")
    vocab: int | None = Field(description="rows of the embedding table")
    hidden: int | None = Field(description="width of the model, elements")
    tied: bool | None = Field(description="whether the head is the embedding table")
    prediction_layers: int = Field(description="extra prediction layers that are stored; they are no part of the stack")
    closest: str | None = Field(default=None, description="the known family that is nearest to it; null when a family reads it, or none is near")
    licence: str | None = Field(default=None, description="file of the folder that holds its licence; null when there is none")


class ParameterRow(Strict):
    """Counts of weights; scales and other companions are not counted."""

    total: int = Field(description="weights of the model, prediction layers and towers left out")
    least: int | None = Field(default=None, description="the total is no less, where something is not understood; null where nothing is left open")
    most: int | None = Field(default=None, description="the total is no more, where something is not understood; null where nothing is left open")
    active: int | None = Field(description="weights that one token's pass reads; null when the structure is not known")
    prediction: int = Field(description="weights of extra prediction layers")
    towers: dict[str, int] = Field(description='tower of another modality ("vision") → its weights, connector included; it is not run')
    definition: str = Field(description="how they were counted")


class ByteCell(Strict):
    """Bytes of one role in one format and number type."""

    role: str = Field(description='what they are for: "expert", "linear", "norm", "prediction", …')
    format: str = Field(description='file name in day0/formats/; "unread" for what no format reads')
    dtype: str = Field(description="safetensors number type; a packed weight has several")
    bytes: int = Field(description="of all such tensors, bytes")


class ByteRow(Strict):
    """Where the bytes of the released files are. Each of the divisions adds up to the total."""

    total: int = Field(description="all tensors, each once, scales included, bytes")
    by_dtype: dict[str, int] = Field(description="safetensors number type → bytes")
    by_format: dict[str, int] = Field(description='file name in day0/formats/ → bytes; "unread" for what no format reads')
    by_role: dict[str, int] = Field(
        description='role → bytes; "prediction", "towers", "ignored", "unclaimed", "unread" for what is not in the stack'
    )
    cells: list[ByteCell] = Field(default_factory=list, description="role × format × number type, the largest first")


class StateRow(Strict):
    """How one piece of a layer's state grows, in the type that the release computes in."""

    name: str = Field(description='"k", "latent", "conv_q"')
    law: Literal["token", "window", "sequence"] = Field(
        description="token: an entry for every few tokens; window: an entry for each of the last tokens; sequence: one entry, however long"
    )
    bytes: int = Field(description="of one entry, bytes")
    every: int = Field(description="tokens that one entry stands for")
    window: int | None = Field(description="tokens that are kept; null where all are, or where it does not grow")


class ExpertsRow(Strict):
    """Experts of one kind of layer."""

    routed: int = Field(description="experts that have weights and are chosen for each token")
    top_k: int | None = Field(description="experts chosen for a token; null when not known")
    width: int | None = Field(description="hidden width of one routed expert, elements; null when not known")
    shared: float = Field(description="experts that see every token, in widths of a routed one")
    zero: int = Field(description="experts that can be chosen and return their input")
    latent: int | None = Field(description="width that routed experts work at; null where it is the model's")
    router: str | None = Field(description="how they are chosen and weighed; null when not known")


class KindRow(Strict):
    """What the layers of one kind have in common."""

    name: str = Field(description="that `layers` call it by")
    count: int = Field(description="layers of this kind")
    mixer: dict[str, Scalar] = Field(description="what mixes tokens: fields of day0/parts/; empty where there is nothing, or nothing is known")
    ffn: dict[str, Scalar] = Field(description="what acts on each token, likewise")
    residual: dict[str, Scalar] = Field(description="how both are added, likewise")
    embedding: dict[str, Scalar] = Field(description="what is looked up by token ids in the layer, likewise")
    experts: ExpertsRow | None = Field(description="null where there are none")
    state: list[StateRow] = Field(description="what one layer keeps between steps")
    sources: dict[str, list[str]] = Field(description="figure (mixer.heads) → configuration keys, or tensors, that it follows from")


class TableRow(Strict):
    """A table that is looked up, or multiplied at the end."""

    name: str = Field(description='"embed", "head", or the weight of a layer')
    rows: int = Field(description="entries")
    width: int = Field(description="elements of an entry")
    parameters: int = Field(description="weights; 0 where another table is used again")


class ExpertLayoutRow(Strict):
    """How routed experts of some layers are stored."""

    where: Literal["stack", "prediction"] = Field(description="layers of the stack, or prediction layers behind it")
    layout: Literal["one by one", "together"] = Field(description="each expert in tensors of its own, or all of a layer in one")
    layers: int = Field(description="layers that are stored so")
    tensor: str = Field(description="one of the weights, by its name on disk")


class NormRow(Strict):
    """Weights of the norms of one place, by those of the first, the middle and the last layer that has them."""

    name: str = Field(description='the place: "residual.mixer_norm"; "norm" is the last one')
    formula: Literal["w", "1 + w"] | None = Field(description="what the family multiplies by; null where it makes something else of the weight")
    tensors: list[str] = Field(description="those that were read, by their names on disk; without what is all zero")
    means: list[float] = Field(description="mean of each")
    stored: Literal["about 0", "about 1", "neither"] = Field(
        description="what all of them are: values of both signs around zero, positive ones around one; a hint at the formula that they are for"
    )


class StructureRow(Strict):
    """What the stack is made of, and what goes between its layers."""

    kinds: list[KindRow] = Field(description="kinds of layers, in order of appearance")
    tables: list[TableRow] = Field(description="embedding table, head, and tables within layers")
    index_sharing: dict[int, list[int]] = Field(description="layer that selects tokens → layers that read its selection")
    kv_sharing: dict[int, list[int]] = Field(description="layer that keeps keys and values → layers that read them")
    residual_blocks: list[int] = Field(description="layers that begin a block of residuals; empty where residuals are not in blocks")
    expert_layouts: list[ExpertLayoutRow] = Field(description="how routed experts are stored; empty where there are none, or no tensors")
    prediction_stored: bool = Field(description="whether weights of the prediction layers are there")
    token_bytes: float = Field(description="that the state grows by with each token of a sequence, bytes")
    sequence_bytes: int = Field(description="of state for each sequence, full windows included, however long it is, bytes")
    open: list[str] = Field(description="what is not understood, each in a sentence")


class LayerRow(Strict):
    """One layer of the stack."""

    index: int = Field(description="position, from 0")
    kind: str = Field(default="", description="name of an entry of structure.kinds; empty when nothing is known")
    mixer: str | None = Field(description="file name in day0/parts/ of what mixes tokens; null when not known")
    ffn: str | None = Field(description="file name in day0/parts/ of what acts on each token; null when not known or absent")
    residual: str | None = Field(description="file name in day0/parts/ of how both are added; null when not known")
    parameters: int = Field(description="weights")
    active: int | None = Field(description="weights that one token reads; null when not known")
    bytes: int = Field(description="in the released files, bytes")
    formats: list[str] = Field(description="formats that its weights are in")
    experts: int | None = Field(description="routed experts; null where there are none")
    top_k: int | None = Field(description="experts chosen for a token; null where there are none")


class SourceRow(Strict):
    """Where a release was read that is not on this machine."""

    kind: Literal["hub", "https"] = Field(description="hub: through a hub's list of files; https: a folder of files")
    url: str = Field(description="address, with the revision of a hub")
    revision: str | None = Field(description="commit; null where the address has none")
    bytes_read: int = Field(description="read over the network, bytes")
    bytes_total: int = Field(description="of all files that are known to be there, bytes")


class TokenizerRow(Strict):
    """The tokenizer, without running it."""

    file: str = Field(description="file that holds the vocabulary")
    tokens: int | None = Field(description="entries, added tokens included; null when the file is of a kind that is not read")
    highest_id: int | None = Field(description="highest token id; null when not known")


class TemplateRow(Strict):
    """The chat template."""

    file: str = Field(description="file that it is taken from")
    characters: int = Field(description="its length, characters")


class ConfigRow(Strict):
    """Which keys of the configuration decided something."""

    read: dict[str, str] = Field(description="dotted key → who read it")
    unread: dict[str, str] = Field(description="dotted key that nobody read → what it is likely to change, by its name")
    values: dict[str, str] = Field(description="dotted key → its value as JSON; of a long one the beginning and a digest")


class FileRow(Strict):
    """One weight file."""

    name: str = Field(description="file name")
    bytes: int = Field(description="size of the file, bytes")
    tensors: int = Field(description="tensors that its header describes soundly")
    sha256: str | None = Field(description="hex digest of the whole file; null unless it was asked for")


class SampleRow(Strict):
    """How much of the values was looked at."""

    tensors: int = Field(description="tensors of which a sample was read")
    bytes: int = Field(description="bytes that were read of them")
    share: float = Field(description="bytes that were read over those of all tensors")


class InspectReport(Report):
    """What a release is, and whether the copy is sound."""

    STAGE: ClassVar[str] = "inspect"
    COMMAND: ClassVar[str] = "day0 inspect MODEL"

    verdict: Literal["sound", "unsound"] = Field(description="unsound when a finding fails")
    basis: Literal["tensors", "configuration"] = Field(
        description="tensors: counts and sizes are those of headers; configuration: config.json is alone, they are what it declares"
    )
    model: ModelRow = Field(description="what it is")
    source: SourceRow | None = Field(description="where it was read; null for a folder of this machine")
    parameters: ParameterRow = Field(description="how many weights")
    bytes: ByteRow = Field(description="where the bytes are")
    structure: StructureRow = Field(description="what it is made of")
    norms: list[NormRow] = Field(
        default_factory=list, description="weights of norms; empty where no family reads the release, or its weights are not on this machine"
    )
    layers: list[LayerRow] = Field(description="the stack, in order")
    tokenizer: TokenizerRow | None = Field(description="null when the folder has none")
    template: TemplateRow | None = Field(description="null when the release has no chat template")
    config: ConfigRow = Field(description="keys that were read, and keys that were not")
    evidence: dict[str, str] = Field(description="figure of this report (parameters.total) → where it comes from")
    files: list[FileRow] = Field(description="weight files that make up the model")
    sample: SampleRow | None = Field(default=None, description="values that were looked at; null unless that was asked for")
    headers: Input | None = Field(
        default=None,
        description="file beside the reports with all headers, for the stages that follow; null where something is wrong with one of them, "
        "and where none are kept",
    )
    checks: list[str] = Field(description="codes of the checks that ran")
    findings: list[FindingRow] = Field(description="what the checks said; a check that says nothing has passed")
