"""How an engine lays a model out on cards, where engines differ: one YAML file for each in `templates/engines/`."""

from pydantic import Field, model_validator

from day0.spec.reports.base import Strict
from day0.spec.state import StateSpec, Use

GIB = 1 << 30


class Band(Strict):
    """A figure that varies from run to run."""

    p50: float = Field(ge=0, description="the middle")
    p95: float = Field(ge=0, description="19 of 20 are not above it")
    source: str = Field(description="where it was read, or what it was set by")

    @model_validator(mode="after")
    def _ordered(self) -> "Band":
        if self.p95 < self.p50:
            raise ValueError(f"p95 {self.p95} is below p50 {self.p50}")
        return self


class For(Strict):
    """What a rule is about; empty is everything."""

    format: str = Field(default="", description="file name in day0/formats/ that the weights have")
    arch: list[str] = Field(default_factory=list, description="architectures of cards")

    def speaks_of(self, form: str, arch: str) -> bool:
        """Whether the rule holds for weights of a format on a card."""
        return self.format in ("", form) and (not self.arch or arch in self.arch)


class Padding(For):
    """Experts whose sides are rounded up for a kernel."""

    width: int = Field(default=1, ge=1, description="their width on a rank is a multiple of it")
    hidden: int = Field(default=1, ge=1, description="the width of the model is a multiple of it in their matrices")
    bias: str = Field(default="", description="compute type that their biases are held in; empty: that of the plan")
    source: str = Field(description="where it was read")


class Residual(For):
    """Bytes that an engine was seen to hold beyond what is modelled here, as a share of the weights."""

    share: Band = Field(description="of the weights")


class Entry(Strict):
    """State stored in 8 bits."""

    use: Use = Field(description="which state")
    kv: str = Field(default="fp8", description="type of the state that was asked for")
    arch: list[str] = Field(default_factory=list, description="architectures of cards; empty is every one")
    kinds: list[str] = Field(default_factory=list, description="growth of the state; empty is any")
    sparse: bool = Field(default=False, description="only where tokens are chosen")
    group: int = Field(default=0, ge=0, description="elements that share a scale; 0: scales lie elsewhere")
    scale_bytes: int = Field(default=0, ge=0, description="bytes of a scale")
    exact: bool = Field(default=False, description="rotated dimensions stay in the compute type")
    align: int = Field(default=1, ge=1, description="an entry's bytes are a multiple of it")
    source: str = Field(description="where it was read")

    def bytes(self, spec: StateSpec, elements: int, wide: int) -> int:
        """Bytes of an entry of `elements`; `wide` of those that stay exact, each."""
        exact = spec.exact if self.exact else 0
        narrow = elements - exact
        scales = -(-narrow // self.group) * self.scale_bytes if self.group else 0
        return -(-(narrow + scales + exact * wide) // self.align) * self.align


class Index(Strict):
    """What choosing tokens takes besides its keys."""

    on_all_layers: bool = Field(default=False, description="layers that reuse a choice hold keys all the same")
    logits_mib: float | None = Field(default=None, description="most that scores take at once, MiB; null: all of them, for each head")
    gather_tokens: int = Field(default=0, ge=0, description="keys gathered at once, as multiples of the longest context")
    source: str = Field(default="", description="where it was read")


class Rules(Strict):
    """One engine."""

    name: str = Field(description="the file's name, as --engine takes it")
    title: str = Field(description="the engine, and the versions that the rules were read from")
    alignment: int = Field(default=1, ge=1, description="bytes between starts of tensors that share a buffer")
    vocab_multiple: int = Field(default=1, ge=1, description="rows of a rank's share of the vocabulary are a multiple of it")
    vision: bool = Field(default=True, description="towers of other modalities are loaded unless told otherwise")
    absorbed: bool = Field(default=False, description="latent attention keeps the expansion of the latent once more, in the compute type")
    as_stored: bool = Field(default=False, description="plain weights keep the type they are released in")
    permutes: bool = Field(default=True, description="tokens are copied once for each expert that they go to")
    padding: list[Padding] = Field(default_factory=list, description="the first that holds counts")
    residual: list[Residual] = Field(default_factory=list, description="the first that holds counts")
    entries: list[Entry] = Field(default_factory=list, description="the first that holds counts; else 8 bits an element")
    index: Index = Field(default_factory=Index, description="choosing tokens")
    page_groups: bool = Field(default=False, description="layers with other kinds of state share pages in groups of the rarest kind's size")
    window_pages: int = Field(default=0, ge=0, description="pages of a window beyond those that a step looks back at")
    repack: float = Field(default=0, ge=0, description="held while weights are laid out anew, as multiples of the largest layer's experts")
    utilisation: float = Field(default=1, gt=0, le=1, description="share of a card that the engine fills")
    context_gib: Band = Field(description="driver context, libraries and the process, GiB a card")
    group_gib: Band = Field(description="buffers of one group of ranks that talk to each other, GiB a card")
    graphs_gib: Band = Field(description="captured graphs, GiB a card")
    slack: Band = Field(description="what the allocator loses, as a share of all else")
    dispatch_tokens: int = Field(default=0, ge=0, description="tokens of a rank that buffers of expert exchange have room for; 0: none are held")
