"""What `validate` measured, in plain numbers; checks judge it, reports show it."""

from typing import Literal

from day0.spec.ops import Phase
from day0.spec.record import record

Rung = Literal["weights", "operators", "layers", "model", "service"]
RUNGS: tuple[Rung, ...] = ("weights", "operators", "layers", "model", "service")


@record
class Evidence:
    """Base: where something was measured."""

    layer: int | None  #: index in the stack; None outside it
    part: str  #: "mixer", "ffn", "residual"; within the ends "embed", "norm", "head"

    @property
    def subject(self) -> str:
        """Where it was, in words."""
        return self.part if self.layer is None else f"layer {self.layer} {self.part}"


@record
class Errors:
    """How far a tensor is from the truth (the reference in a wider type, on the same inputs), and how far the reference itself is.

    Errors are root mean squares relative to that of the truth. A row is one token.
    """

    ours: float  #: our error
    reference: float = 0.0  #: of the reference in our type; 0 where the reference is the truth
    budget: float = 0.0  #: what rounding alone explains; the least that an error is compared with
    ratio: float = 0.0  #: ours to the larger of reference and budget
    row_ratio: float = 0.0  #: the same of the worst row
    row: int = 0  #: that row
    null: float = 0.0  #: what `ratio` would be of the reference in our type after a harmless change; 0 where none was made
    null_row: float = 0.0  #: what `row_ratio` would be
    reference_row: float = 0.0  #: error of the reference in its own worst row, to its error as a whole: how uneven rows are by nature
    bias: float = 0.0  #: mean error towards larger magnitude, in unit roundoffs of the type; 0 when rounding is fair
    bias_error: float = 0.0  #: standard error of that mean
    elements: int = 0  #: compared
    finite: bool = True  #: no infinity or NaN that the truth does not have
    norm: float = 1.0  #: root mean square of ours to that of the truth
    first: int = 0  #: first row that is about as wrong as the worst one
    columns: tuple[int, int] | None = None  #: first and last column that is about as wrong as the worst one; None: all of them
    pattern: str = ""  #: the simple change that explains an error too large for rounding: "scaled by 1.05"


@record
class WeightEvidence(Evidence):
    """One stored tensor, decoded twice."""

    name: str  #: in the checkpoint
    role: str  #: what it is used for
    format: str  #: how it is stored
    path: str  #: the independent way it was decoded; "" when there is none
    deviation: float  #: largest difference between both, relative to the largest magnitude
    where: str  #: place of that difference, "[3, 17]"
    finite: bool  #: no infinity or NaN
    rms: float  #: root mean square of the decoded values
    peak: float  #: largest magnitude
    usual: float  #: median root mean square of the tensors of the same kind
    pattern: str = ""  #: the simple change that explains the difference


@record
class OperatorEvidence(Evidence):
    """One implementation of an operator on the sizes of one call of the model."""

    op: str  #: operator
    label: str  #: which call
    phase: Phase  #: prefill or decode
    provider: str  #: whose implementation
    dtype: str  #: type it computed in
    sizes: str  #: "T=33 D=64"
    exact: bool  #: results are choices, which must be equal
    errors: Errors  #: against the operator's reference in float64
    result: str = ""  #: type of the result

    @property
    def call(self) -> str:
        """Which call of which implementation, in words."""
        return f"{self.subject} {self.op} {self.label} by {self.provider} in {self.dtype} ({self.sizes})"


@record
class LayerEvidence(Evidence):
    """What one part of a layer (or the layer, part "residual") gave for the tokens of one sequence."""

    phase: Phase  #: prefill: one step; decode: the last tokens one by one
    dtype: str  #: type it computed in
    tokens: int  #: of the sequence
    errors: Errors  #: against the reference in float32


@record
class SelectionEvidence(Evidence):
    """Which experts the router of a layer chose."""

    dtype: str  #: type the layer computed in
    phase: Phase  #: prefill or decode
    tokens: int  #: of the sequence
    wrong: int  #: tokens whose experts break the reference's rule applied to our own scores
    first: int  #: the first of them; -1 when there is none
    weights: float  #: largest difference of an expert's weight from that rule, relative to the largest weight
    scores: Errors  #: our scores before any score function, against the reference's
    flips: int  #: tokens whose experts differ from the reference's; reported, never judged
    explained: int  #: flips whose margin is within twice the error of the scores


@record
class RotaryEvidence(Evidence):
    """Cosines and sines of a layer's positions."""

    tokens: int  #: largest position looked at, plus one
    deviation: float  #: largest difference from the reference's table
    position: int  #: where it is


@record
class ReadsEvidence(Evidence):
    """Which tokens, entries or blocks the sparse attention of a layer chose to read, in a single step."""

    dtype: str  #: type the layer computed in
    tokens: int  #: of the sequence
    chosen: int  #: choices of the reference's, over all tokens
    lacking: int  #: of them, choices that ours lacks
    affected: int  #: tokens that lack any


@record
class ReusedEvidence(Evidence):
    """The choice that a layer takes over from another one."""

    dtype: str  #: type the layers computed in
    source: int  #: layer that ours takes it from
    chosen: int  #: numbers of the choice that the reference hands on
    lacking: int  #: of them, numbers that the choice of `source` lacks


@record
class ReferencesEvidence(Evidence):
    """One part of a layer as two references have it: our own definition of it, and the reference that all else is compared with.

    All in float32. Distances are relative errors where the part gives numbers, and shares of all choices where it chooses.
    """

    choices: int  #: that were compared; 0 where numbers were
    apart: float  #: our definition from the reference
    to_reference: float  #: what runs here from the reference
    to_own: float  #: what runs here from our definition


@record
class StateEvidence(Evidence):
    """What a layer keeps of a sequence once it was read in chunks and single tokens, against what one step leaves."""

    name: str  #: "k", "latent", "memory"
    tokens: int  #: of the sequence
    errors: Errors  #: of what chunks leave; rows are entries


@record
class PositionsEvidence(Evidence):
    """Positions that the steps of a sequence give its tokens."""

    tokens: int  #: of the sequence
    wrong: int  #: tokens with another position than their place in the sequence
    first: int  #: the first of them; -1 when there is none
    found: int  #: its position


@record
class HeldEvidence(Evidence):
    """One weight as the engine holds it, against what is stored."""

    name: str  #: within its layer, "ffn.experts.gate"
    deviation: float  #: largest difference, relative to the largest magnitude
    expert: int | None  #: the worst expert; None outside a bank
    rows: tuple[int, int] | None  #: first and last row that differs
    columns: tuple[int, int] | None  #: first and last column that differs
    pattern: str = ""  #: the simple change that explains the difference


@record
class CallEvidence(Evidence):
    """The operator call of a layer that is wrong first: its inputs pass through the reference's layer, and its result does not."""

    op: str  #: operator
    label: str  #: weights that it reads, "q", or ""
    expert: int | None  #: the one expert whose tokens are wrong
    experts: tuple[int, ...]  #: experts whose tokens are wrong, where only their tokens are
    row: int  #: first token that is wrong
    rows: int  #: tokens that are wrong
    tokens: int  #: of the sequence
    columns: tuple[int, int] | None  #: first and last column that is wrong; None: all, or unknown
    pattern: str  #: the simple change that would explain it


@record
class Uncompared(Evidence):
    """Something that was asked for and could not be compared."""

    rung: Rung  #: where it belongs
    what: str  #: what was not compared
    why: str  #: the reason
