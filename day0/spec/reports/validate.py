"""What `day0 validate` leaves: a verdict, the first thing that is wrong, and everything that was measured."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.evidence import Rung
from day0.spec.ops import Phase
from day0.spec.reports.base import FindingRow, Report, Strict

Answer = Literal["pass", "fail", "unknown"]


class Divergence(Strict):
    """Where our numbers leave the reference's for the first time: the lowest rung, there the first layer, there the first part."""

    rung: Rung = Field(description="weights, operators, layers, model or service")
    layer: int | None = Field(description="index in the stack; null outside it")
    part: str = Field(description='"mixer", "ffn" or "residual" in a layer; "embed", "norm", "head" or "logits" outside')
    code: str = Field(description="check that found it; `day0 explain CODE` tells more")
    statistic: str = Field(description="what was found, with its figure")
    expected: str = Field(description="what should have been found")
    line: str = Field(description="where it is and how it looks, in one line")
    operator: str | None = Field(None, description="operator call that is wrong first; null where no call could be told from the others")
    weights: str = Field("", description="weights that this call reads")
    expert: int | None = Field(None, description="the one expert that is wrong")
    experts: list[int] = Field(default_factory=list, description="experts that are wrong, where not all of them are")
    row: int | None = Field(None, description="first token (or row) that is wrong")
    columns: tuple[int, int] | None = Field(None, description="first and last column that is wrong; null for all")
    ratio: float | None = Field(None, description="error to the larger of the reference's own and the budget")
    pattern: str = Field("", description='the simple change that would explain it: "scaled by 1.05", "halves exchanged", "precision"')
    references: str = Field("", description="how two references disagree there, and which of them runs here; empty where they agree")
    course: Literal["", "step", "spike"] = Field("", description="step: the stream stays wrong after this layer; spike: it recovers")


class RungRow(Strict):
    """One step of the ladder."""

    name: Rung = Field(description="weights, operators, layers, model or service")
    verdict: Literal["pass", "fail", "not run"] = Field(description="fail when one of its checks failed")
    checks: int = Field(description="verdicts of checks")
    seconds: float = Field(description="time it took, seconds")


class ErrorsRow(Strict):
    """Distances from the truth, which is the reference in float32 on the same inputs. Errors are relative root mean squares."""

    ours: float = Field(description="our error, relative to the root mean square of the truth")
    reference: float = Field(description="error of the reference in our type; 0 where the reference is the truth")
    budget: float = Field(description="error that rounding alone explains")
    ratio: float = Field(description="our error to the larger of the reference's and the budget")
    row_ratio: float = Field(description="the same of the worst row (token)")
    null: float = Field(description="what the ratio is of the reference in our type after a harmless change; 0 where none was made")
    null_row: float = Field(description="the same of the worst row")
    row: int = Field(description="the worst row")
    reference_row: float = Field(description="error of the reference in its own worst row, to its error as a whole")
    bias: float = Field(description="mean error towards larger magnitude, in unit roundoffs of the type")
    bias_error: float = Field(description="standard error of that mean")
    elements: int = Field(description="elements compared")
    finite: bool = Field(description="no infinity or NaN that the truth does not have")
    norm: float = Field(description="root mean square of ours to that of the truth")
    first: int = Field(description="first row that is about as wrong as the worst one")
    columns: tuple[int, int] | None = Field(description="first and last column that is about as wrong as the worst one; null for all")
    pattern: str = Field(description="the simple change that explains an error too large for rounding")


class WeightRow(Strict):
    """Stored tensors of one layer."""

    layer: int | None = Field(description="index in the stack; null outside it")
    tensors: int = Field(description="stored tensors compared")
    formats: dict[str, int] = Field(description="format → tensors")
    deviation: float = Field(description="largest difference between both ways to decode, relative to the largest magnitude")
    rms: dict[str, float] = Field(description="role → root mean square of the decoded values")


class OperatorRow(Strict):
    """One implementation on the sizes of one kind of call."""

    op: str = Field(description="operator")
    provider: str = Field(description="whose implementation")
    dtype: str = Field(description="type it computed in")
    sizes: str = Field(description="axis sizes of the call")
    calls: int = Field(description="calls of the chosen layers that have these sizes")
    errors: ErrorsRow = Field(description="against the operator's reference in float64")


class LayerRow(Strict):
    """One part of one layer, on the reference's hidden states."""

    layer: int = Field(description="index in the stack")
    part: str = Field(description='"mixer" and "ffn": what each adds to the stream; "residual": the stream that leaves')
    phase: Phase = Field(description="prefill: one step; decode: the last tokens one by one")
    dtype: str = Field(description="type it computed in")
    tokens: int = Field(description="length of the sequence")
    errors: ErrorsRow = Field(description="against the reference in float32")


class SelectionRow(Strict):
    """What the router of one layer chose."""

    layer: int = Field(description="index in the stack")
    phase: Phase = Field(description="prefill or decode")
    dtype: str = Field(description="type it computed in")
    tokens: int = Field(description="length of the sequence")
    wrong: int = Field(description="tokens whose experts break the reference's rule applied to our own scores")
    weights: float = Field(description="largest difference of an expert's weight from that rule, relative to the largest weight")
    flips: int = Field(description="tokens whose experts differ from the reference's; not judged")
    explained: int = Field(description="flips whose margin is within twice the error of the scores")


class DepthRow(Strict):
    """The stream after one layer, while the whole model runs with the reference's choices."""

    layer: int = Field(description="index in the stack")
    dtype: str = Field(description="type it computed in")
    errors: ErrorsRow = Field(description="against the reference in float32")


class NormRow(Strict):
    """What the head reads of the stream that leaves the reference's last layer."""

    dtype: str = Field(description="type it computed in")
    tokens: int = Field(description="length of the sequence")
    errors: ErrorsRow = Field(description="against the reference in float32")


class ModelRow(Strict):
    """Logits of the whole model on one prompt."""

    part: str = Field("logits", description='"logits with an image" where the prompt has one')
    dtype: str = Field(description="type it computed in")
    forced: bool = Field(description="whether the reference's choice of experts was forced; free runs of expert models are not judged")
    tokens: int = Field(description="length of the prompt")
    errors: ErrorsRow = Field(description="of the logits")
    top1: float = Field(description="share of tokens with the same best next token as the reference in float32")
    reference_top1: float = Field(description="the same for the reference in our type")
    astray: int = Field(0, description="tokens with another best next token, of which the reference is sure by more than rounding explains")
    divergence: float = Field(description="mean Kullback-Leibler divergence, nats a token")
    reference_divergence: float = Field(description="the same for the reference in our type")


class TowerRow(Strict):
    """What the tower made of an image."""

    dtype: str = Field(description="type it computed in")
    patches: int = Field(description="of the image")
    where: str = Field(description="part of the tower that is wrong first; empty where nothing is")
    op: str = Field(description="operator that is wrong first")
    errors: ErrorsRow = Field(description="of the embeddings, against the reference in float32")


class SwitchRow(Strict):
    """A feature turned on layer by layer."""

    feature: str = Field(description="kv-int8, kv-fp8, kv-bf16: type that state is kept in; dtype: the model's own type instead of float32")
    layers: list[int] = Field(description="the fewest layers that were found not to bear it, alone or together; empty where all of them do")
    tokens: int = Field(description="length of the sequence")
    all: float = Field(description="divergence with it in every layer, nats a token")
    alone: float = Field(description="divergence with it in `layers` alone")
    rest: float = Field(description="divergence with it in all other layers")
    limit: float = Field(description="above which it is too much")


class ServiceRow(Strict):
    """One answer of the service, next to the engine's own."""

    alone: bool = Field(description="whether nobody else was asking")
    prompt: int = Field(description="tokens of the prompt")
    tokens: int = Field(description="that the engine generates")
    given: int = Field(description="that the service generated")
    same: int = Field(description="before the first that differs")
    margin: float | None = Field(description="distance of the best two log-probabilities there; null where the answers do not part")
    explained: float = Field(description="change of one of both that rounding explains")
    failure: str = Field(description="what the service said instead of an answer")


class ValidateReport(Report):
    """Whether a model computes what its release means, and where it does not."""

    STAGE: ClassVar[str] = "validate-layer"
    COMMAND: ClassVar[str] = "day0 validate"

    verdict: Answer = Field(description="pass: nothing looked at is wrong; unknown: neither layers nor logits were compared, or time was over")
    first_divergence: Divergence | None = Field(description="the first thing that is wrong; null when nothing is")
    model: str = Field(description="name of the model")
    reference: str = Field(description="what it was compared with")
    dtype: str = Field(description="the model's own type, in which ratios were taken besides float32")
    layers: list[int] = Field(description="layers that were looked at")
    until: Rung = Field(description="highest rung that was asked for")
    inputs: Literal["reference", "random"] = Field(description="hidden states of the reference, or drawn ones")
    tokens: int = Field(description="length of the sequence that layers were run on")
    budget: float | None = Field(None, description="minutes after which nothing new was begun; null without a limit")
    rungs: list[RungRow] = Field(description="the ladder, from the bottom")
    findings: list[FindingRow] = Field(description="every verdict that is not a pass, then one pass a check and layer")
    weights: list[WeightRow] = Field(description="weights, by layer")
    operators: list[OperatorRow] = Field(description="operators, by kind of call")
    layer_errors: list[LayerRow] = Field(description="layers, part by part")
    selections: list[SelectionRow] = Field(description="choices of experts")
    depths: list[DepthRow] = Field(description="the stream from layer to layer")
    answers: list[ServiceRow] = Field(default_factory=list, description="the service")
    towers: list[TowerRow] = Field(default_factory=list, description="the tower for images")
    switches: list[SwitchRow] = Field(default_factory=list, description="features that were turned on layer by layer")
    norms: list[NormRow] = Field(default_factory=list, description="the last norm, with what joins several streams before it")
    logits: list[ModelRow] = Field(description="the whole model")
