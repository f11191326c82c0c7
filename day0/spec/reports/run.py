"""What `day0 run` leaves: the answers, and how long and how much memory they took."""

from typing import ClassVar, Literal

from pydantic import Field

from day0.spec.reports.base import Report, Strict
from day0.spec.reports.suite import SuiteScore
from day0.spec.request import Finish


class SamplingRow(Strict):
    """How tokens were chosen."""

    temperature: float = Field(description="of the distribution that tokens were drawn from; 0 is greedy")
    top_k: int = Field(description="best tokens kept; 0 keeps all")
    top_p: float = Field(description="probability that the kept tokens reach together")
    min_p: float = Field(description="least share of the best token's probability")
    repetition_penalty: float = Field(description="divides positive logits of seen tokens, multiplies negative ones")
    presence_penalty: float = Field(description="subtracted once from the logit of a generated token")
    frequency_penalty: float = Field(description="subtracted for each time a token was generated")
    seed: int | None = Field(description="of the sampler; null when drawn")


class Answer(Strict):
    """One prompt and what the model made of it."""

    prompt: str = Field(description="what the person gave")
    chat: bool = Field(description="whether it went through the release's chat template")
    prompt_tokens: list[int] = Field(description="token ids that the model read")
    tokens: list[int] = Field(description="token ids that the model wrote")
    text: str = Field(description="the answer, without what ended it")
    finish: Finish = Field(description="why it ended: a stop token or text, the length, or an error")
    error: str = Field(default="", description="what went wrong, when finish is error")


class Times(Strict):
    """How long it took; null where nothing was measured."""

    load: float = Field(description="reading the weights and getting ready, seconds")
    first_token: float | None = Field(description="from the question to the first token of the first answer, seconds")
    prefill: float | None = Field(description="prompt tokens of all prompts a second, until every answer has begun")
    decode_p50: float | None = Field(description="median of the steps that only decode, seconds")
    decode_p95: float | None = Field(description="95th percentile of the steps that only decode, seconds")
    decode: float | None = Field(description="generated tokens of all answers a second, once every answer has begun")
    total: float = Field(description="from the question to the end of the last answer, seconds")


class Memory(Strict):
    """What was held at most."""

    process_before: int = Field(description="resident set of the process before the weights were read, bytes")
    process_peak: int = Field(description="largest resident set of the process, bytes")
    device_peak: int | None = Field(description="largest use of the device's memory, bytes; null without an accelerator")
    engine: dict[str, int] = Field(description="the engine's own account at the end: what → bytes")
    read: int | None = Field(None, description="weights taken from files for each step, bytes; null where no step was watched")


class SelfCheck(Strict):
    """The run's own weights and layers, next to layers on weights that were read and decoded another way."""

    tokens: int = Field(description="first tokens of the first prompt that the layers were run on")
    layers: int = Field(description="layers that were run, each by the run's kernels on the run's weights, and by the operators' references")
    parts: int = Field(description="results compared: what each part adds and the stream after each layer, in one step and in several")
    weights: int = Field(description="weights compared as they are held; of experts stored one by one, those that the tokens are sent to")
    error: float = Field(description="largest relative error of any part, next to the reference in float32")
    seconds: float = Field(description="time it took, seconds")


class OperatorTime(Strict):
    """Time spent in one operator."""

    op: str = Field(description="operator, a file in day0/ops/, or `other` for what lies between")
    seconds: float = Field(description="in all layers and steps, seconds")
    share: float = Field(description="of the time of all steps, from 0 to 1")


class RunReport(Report):
    """Prompts answered by a model on a machine."""

    STAGE: ClassVar[str] = "run"
    COMMAND: ClassVar[str] = "day0 run"

    verdict: Literal["answered", "failed"] = Field(description="answered: every prompt has an answer that ended without an error")
    model: str = Field(description="name of the release")
    machine: str = Field(description="name of the machine that was planned for")
    executor: Literal["native", "community"] = Field(description="whose code ran: day0's engine, or the class of transformers")
    device: str = Field(description="what it ran on")
    dtype: str = Field(description="type that was computed in")
    weights: str = Field(description="resident: kept in memory; streamed: read layer by layer")
    sampling: SamplingRow = Field(description="how tokens were chosen")
    answers: list[Answer] = Field(description="one for each prompt, in order; those of a suite are counted in `suites`")
    times: Times = Field(description="how long it took")
    memory: Memory = Field(description="how much it took")
    operators: list[OperatorTime] = Field(description="time by operator, longest first; empty when it was not measured")
    self_check: SelfCheck | None = Field(None, description="what was compared before anything was answered; null where nobody asked")
    suites: list[SuiteScore] = Field(default_factory=list, description="how often a suite of questions was answered rightly, and by whom")
