"""What every route has at hand, and what chats and completions do alike: from fields of a body to requests of the engine."""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import day0
from day0.engine.eye import Eye
from day0.engine.text import Tokenizer
from day0.serve.errors import ApiError, invalid
from day0.serve.runner import Runner
from day0.serve.schemas import Generation
from day0.serve.settings import Settings
from day0.spec.record import record
from day0.spec.request import Request, Sampling

FLOOR = -9999.0  # JSON has no infinity: the log-probability of the impossible


def piece(tokenizer: Tokenizer, token: int) -> str:
    """A token by itself, as log-probabilities name it; part of a character as `bytes:\\xf0`."""
    try:
        return tokenizer.piece(token).decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in tokenizer.piece(token))


@record
class Service:
    """One model, ready to be asked."""

    runner: Runner  #: who has the engine
    tokenizer: Tokenizer  #: of the release
    settings: Settings  #: of the service
    eye: Eye | None = None  #: what reads images; None where none are taken

    def require(self, body: Generation) -> None:
        """Refuse what can be refused before anything is computed."""
        self.runner.require_ready()
        if body.model is not None and body.model != self.settings.model:
            message = f"there is no model {body.model[:100]!r} here; this server has {self.settings.model!r}"
            raise ApiError(404, message, param="model", code="model_not_found")
        body.require_supported()

    def requests(self, body: Generation, prompts: Sequence[Sequence[int]], param: str, **scores: Any) -> list[Request]:
        """`n` sequences for each prompt, which came in the field `param`; an answer is no longer than what the plan has room for.

        `scores`: `logprobs` (see Sampling) and `prompt_logprobs` (see Request).
        """
        id, n, wanted = uuid.uuid4().hex, body.n or 1, body.limit()
        made: list[Request] = []
        for tokens in prompts:
            room = self._room(tokens, param, wanted)
            for choice in range(n):
                made.append(
                    Request(
                        id=f"{id}-{len(made)}",
                        tokens=tuple(tokens),
                        max_new=room if wanted is None else min(wanted, room),
                        sampling=self._sampling(body, choice, scores.get("logprobs")),
                        stop=body.stops(),
                        stop_tokens=self._ends(body),
                        min_new=body.min_tokens or 0,
                        prompt_logprobs=scores.get("prompt_logprobs", False),
                    )
                )
        return made

    def piece(self, token: int) -> str:
        """As the function of this name."""
        return piece(self.tokenizer, token)

    def head(self, kind: str, id: str) -> dict[str, Any]:
        """How every answer begins."""
        settings = self.settings
        return {
            "id": id, "object": kind, "created": int(time.time()), "model": settings.model, "system_fingerprint": settings.fingerprint
        }  # fmt: skip

    def _room(self, tokens: Sequence[int], param: str, wanted: int | None) -> int:
        """Tokens that may follow a prompt: at least one, unless none is wanted."""
        most = self.settings.context
        if not tokens:
            raise invalid("the prompt is empty", param)
        if len(tokens) + (wanted != 0) > most:
            message = f"the maximum context length is {most} tokens, prompt and answer together; the prompt has {len(tokens)}"
            raise invalid(message, param, "context_length_exceeded")
        return most - len(tokens)

    def _ends(self, body: Generation) -> frozenset[int]:
        ends = frozenset() if body.ignore_eos else self.tokenizer.eos
        return ends | frozenset(body.stop_token_ids or ())

    def _sampling(self, body: Generation, choice: int, scores: int | None) -> Sampling:
        """The request's own fields, else the release's, else none; each of several choices has a seed of its own."""
        release = self.tokenizer.generation.sampling

        def said(name: str) -> Any:
            value = getattr(body, name)
            return getattr(release, name) if value is None else value

        return Sampling(
            temperature=said("temperature"),
            top_k=max(0, said("top_k")),
            top_p=said("top_p"),
            min_p=said("min_p"),
            repetition_penalty=said("repetition_penalty"),
            presence_penalty=said("presence_penalty"),
            frequency_penalty=said("frequency_penalty"),
            logit_bias=self._bias(body.logit_bias or {}),
            seed=None if body.seed is None else body.seed + choice,
            logprobs=scores,
        )

    def _bias(self, given: Mapping[str, float]) -> tuple[tuple[int, float], ...]:
        for token, bias in given.items():
            if not (token.isascii() and token.isdigit() and len(token) < 10 and int(token) < self.settings.vocab):
                raise invalid(f"{token[:40]!r} is not a token id below {self.settings.vocab}", "logit_bias")
            if not -100 <= bias <= 100:
                raise invalid(f"the bias of token {token} is not between -100 and 100", "logit_bias")
        return tuple((int(token), bias) for token, bias in given.items())


def fingerprint(plan: str) -> str:
    """Version and plan (the digest of its report)."""
    return f"day0-{day0.__version__}-{plan[:8]}"


def usage(prompt: int, generated: int) -> dict[str, int]:
    """Tokens of an answer."""
    return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}


def finite(logprob: float) -> float:
    """A log-probability that JSON can carry."""
    return max(logprob, FLOOR)
