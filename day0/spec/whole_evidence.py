"""What `validate` measured of the model as a whole, and of what answers with it."""

from day0.spec.evidence import Errors, Evidence
from day0.spec.record import record


@record
class DepthEvidence(Evidence):
    """The stream that leaves a layer while the whole model runs with the reference's choices."""

    dtype: str  #: type it computed in
    errors: Errors  #: against the reference in float32


@record
class NormEvidence(Evidence):
    """What the head reads of the stream that leaves the reference's last layer: streams joined, and the last norm."""

    dtype: str  #: type it computed in
    tokens: int  #: of the sequence
    errors: Errors  #: against the reference in float32

    @property
    def subject(self) -> str:
        return "final norm"


@record
class ModelEvidence(Evidence):
    """Logits of the whole model on one prompt."""

    dtype: str  #: type it computed in
    forced: bool  #: whether the reference's choice of experts was forced
    tokens: int  #: of the prompt
    errors: Errors  #: of the logits, against the reference in float32
    top1: float  #: share of tokens with the same best next token as the reference in float32
    reference_top1: float  #: the same for the reference in our type
    astray: int  #: tokens whose best next token is another, although the reference prefers its own by more than rounding explains
    divergence: float  #: mean Kullback-Leibler divergence from the reference in float32, nats a token
    reference_divergence: float  #: the same for the reference in our type


@record
class TowerEvidence(Evidence):
    """What the tower made of an image."""

    dtype: str  #: type it computed in
    patches: int  #: of the image
    errors: Errors  #: of its embeddings, against the reference in float32; a row is one embedding
    where: str = ""  #: part of the tower that is wrong first, "layer 1 mixer"; "" where nothing is, or nobody looked
    op: str = ""  #: operator that is wrong first
    row: int = 0  #: first patch that is wrong

    @property
    def subject(self) -> str:
        return f"tower {self.where}".rstrip()


@record
class SwitchEvidence(Evidence):
    """What a feature changes that is turned on in some layers, against the model without it."""

    feature: str  #: "kv-int8"
    layers: tuple[int, ...]  #: the fewest that were found to change too much, alone or together; () where all of them do not
    tokens: int  #: of the sequence
    all: float  #: mean Kullback-Leibler divergence with it in every layer, nats a token
    alone: float  #: with it in `layers` alone
    rest: float  #: with it in all others
    limit: float  #: above which it is too much

    @property
    def subject(self) -> str:
        where = f"layer{'s' * (len(self.layers) > 1)} {', '.join(map(str, self.layers))}" if self.layers else "every layer"
        return f"{self.feature} in {where}"


@record
class ServiceEvidence(Evidence):
    """One answer of the service, next to what the engine says to the same prompt by itself."""

    alone: bool  #: whether nobody else was asking
    prompt: int  #: tokens of the prompt
    tokens: int  #: that the engine generates
    given: int  #: that the service generated
    same: int  #: before the first that differs
    margin: float | None  #: log-probability of the best token less that of the second at that place; None where the answers do not part
    explained: float  #: change of one of both that rounding explains
    failure: str  #: what the service said instead of an answer

    @property
    def subject(self) -> str:
        return f"service, prompt of {self.prompt} tokens, {'alone' if self.alone else 'under load'}"

    @property
    def sound(self) -> bool:
        """Whether the answers are the same, or part at a near tie."""
        near = self.margin is not None and self.margin <= 2 * self.explained
        return not self.failure and (near or self.same == self.tokens == self.given)

    @property
    def found(self) -> str:
        """What was different, in words."""
        if self.failure:
            return self.failure
        where = "" if self.margin is None else f" where the best two were {self.margin:.2g} apart"
        return f"token {self.same} of {self.tokens} differs{where}"
