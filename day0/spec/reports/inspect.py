"""What `day0 inspect` leaves: what a release is, where its bytes are, and whether the copy is sound."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import FindingRow, Report, Strict


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


class ParameterRow(Strict):
    """Counts of weights; scales and other companions are not counted."""

    total: int = Field(description="weights of the model, prediction layers and towers left out")
    active: int | None = Field(description="weights that one token's pass reads; null when the structure is not known")
    prediction: int = Field(description="weights of extra prediction layers")
    towers: dict[str, int] = Field(description='tower of another modality ("vision") → its weights, connector included; it is not run')
    definition: str = Field(description="how they were counted")


class ByteRow(Strict):
    """Where the bytes of the released files are. Each of the three divisions adds up to the total."""

    total: int = Field(description="all tensors, each once, scales included, bytes")
    by_dtype: dict[str, int] = Field(description="safetensors number type → bytes")
    by_format: dict[str, int] = Field(description='file name in day0/formats/ → bytes; "unread" for what no format reads')
    by_role: dict[str, int] = Field(
        description='role → bytes; "prediction", "towers", "ignored", "unclaimed", "unread" for what is not in the stack'
    )


class LayerRow(Strict):
    """One layer of the stack."""

    index: int = Field(description="position, from 0")
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
    unread: list[str] = Field(description="dotted keys that nobody read")
    values: dict[str, str] = Field(description="dotted key → its value as JSON; of a long one the beginning and a digest")


class FileRow(Strict):
    """One weight file."""

    name: str = Field(description="file name")
    bytes: int = Field(description="size of the file, bytes")
    tensors: int = Field(description="tensors that its header describes soundly")
    sha256: str | None = Field(description="hex digest of the whole file; null unless it was asked for")


class InspectReport(Report):
    """What a release is, and whether the copy is sound."""

    STAGE: ClassVar[str] = "inspect"
    COMMAND: ClassVar[str] = "day0 inspect MODEL"

    verdict: Literal["sound", "unsound"] = Field(description="unsound when a finding fails")
    model: ModelRow = Field(description="what it is")
    source: SourceRow | None = Field(description="where it was read; null for a folder of this machine")
    parameters: ParameterRow = Field(description="how many weights")
    bytes: ByteRow = Field(description="where the bytes are")
    layers: list[LayerRow] = Field(description="the stack, in order")
    tokenizer: TokenizerRow | None = Field(description="null when the folder has none")
    template: TemplateRow | None = Field(description="null when the release has no chat template")
    config: ConfigRow = Field(description="keys that were read, and keys that were not")
    files: list[FileRow] = Field(description="weight files that make up the model")
    checks: list[str] = Field(description="codes of the checks that ran")
    findings: list[FindingRow] = Field(description="what the checks said; a check that says nothing has passed")
