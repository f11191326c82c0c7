"""What is asked of the engine, and what it answers, token by token."""

from typing import Literal

from day0.spec.picture import Placed
from day0.spec.record import record

Finish = Literal["stop", "length", "cancelled", "error"]


@record
class Sampling:
    """How the next token is chosen from the logits."""

    temperature: float = 0.0  #: 0 is greedy
    top_k: int = 0  #: keep the k best; 0 keeps all
    top_p: float = 1.0  #: keep the smallest set whose probability reaches p
    min_p: float = 0.0  #: drop what has less than this share of the best token's probability
    repetition_penalty: float = 1.0  #: divides positive logits of seen tokens, multiplies negative ones (CTRL, arXiv 1909.05858)
    presence_penalty: float = 0.0  #: subtracted once from the logit of each generated token
    frequency_penalty: float = 0.0  #: subtracted for each time a token was generated
    logit_bias: tuple[tuple[int, float], ...] = ()  #: (token id, added to its logit)
    seed: int | None = None  #: of this request's own generator; None draws one
    logprobs: int | None = None  #: alternatives to report for each token; None reports nothing, 0 the chosen token alone


@record
class Request:
    """One sequence to continue."""

    id: str  #: unique among those in flight
    tokens: tuple[int, ...]  #: prompt
    max_new: int  #: tokens to generate at the most
    sampling: Sampling = Sampling()  #: how each token is chosen
    stop: tuple[str, ...] = ()  #: strings that end the answer and are cut from it
    stop_tokens: frozenset[int] = frozenset()  #: ids that end the answer
    min_new: int = 0  #: stop tokens are not chosen before this many
    prompt_logprobs: bool = False  #: report the log-probability of each prompt token
    images: tuple[Placed, ...] = ()  #: in the prompt, in order


@record
class TokenScore:
    """Log-probabilities (natural logarithm, after no temperature) at one place."""

    token: int  #: chosen or given token
    logprob: float  #: of that token
    top: tuple[tuple[int, float], ...] = ()  #: (token, log-probability), best first


@record
class Output:
    """News of one request after one step."""

    id: str  #: of the request
    tokens: tuple[int, ...] = ()  #: new tokens
    text: str = ""  #: new text that is certain: no half characters, nothing that may belong to a stop string
    scores: tuple[TokenScore, ...] = ()  #: one for each new token, when asked for
    prompt_scores: tuple[TokenScore, ...] = ()  #: for prompt tokens 1…, when asked for, once
    finish: Finish | None = None  #: why it ended; None while it goes on
    error: str = ""  #: what went wrong, when finish is "error"
