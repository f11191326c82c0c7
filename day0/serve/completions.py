"""POST /v1/completions: texts or token ids to continue, and the scores of prompts that evaluations ask for."""

from collections.abc import AsyncIterator, Sequence
from itertools import accumulate
from typing import Any

from fastapi import APIRouter
from fastapi import Request as Http
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from day0.serve.answer import Answer, Sequel
from day0.serve.connection import EventStream, while_connected
from day0.serve.errors import invalid, json_response
from day0.serve.schemas import CompletionBody
from day0.serve.service import Service, finite, usage
from day0.spec.request import Request, TokenScore

ROWS = 2048  # prompts of one request


def router(service: Service) -> APIRouter:
    """The route on one service."""
    routes = APIRouter()

    @routes.post("/v1/completions")
    async def complete(body: CompletionBody, http: Http) -> Response:
        """Continue texts."""
        service.require(body)
        requests = await run_in_threadpool(_requests, service, body)
        answer = service.runner.submit(requests)
        try:
            if body.stream:
                await while_connected(http, answer.begin(service.settings.keep_alive))
                return EventStream(answer, _chunks(service, body, requests, answer))
            sequels = await while_connected(http, answer.whole())
        except BaseException:
            answer.close()
            raise
        choices = [_choice(service, body, i, *pair) for i, pair in enumerate(zip(requests, sequels, strict=True))]
        head = service.head("text_completion", _id(requests))
        return json_response({**head, "choices": choices, "usage": _usage(body, requests, sequels)})

    return routes


def _requests(service: Service, body: CompletionBody) -> list[Request]:
    prompts = [_tokens(service, one, param) for one, param in _prompts(body.prompt)]
    scored = bool(body.echo) and body.logprobs is not None
    return service.requests(body, prompts, "prompt", logprobs=body.logprobs, prompt_logprobs=scored)


def _prompts(given: Any) -> list[tuple[Any, str]]:
    """(text or token ids, field) for each prompt."""
    if isinstance(given, str) or (isinstance(given, list) and given and _number(given[0])):
        return [(given, "prompt")]
    if not isinstance(given, list) or not given:
        raise invalid("prompt must be a text, a list of token ids, or a list of either that is not empty", "prompt")
    if len(given) > ROWS:
        raise invalid(f"{len(given)} prompts in one request; at most {ROWS}", "prompt")
    return [(one, f"prompt[{i}]") for i, one in enumerate(given)]


def _tokens(service: Service, given: Any, param: str) -> list[int]:
    """Token ids of one prompt."""
    if isinstance(given, str):
        tokens = service.tokenizer.encode(given, special=True)
    elif isinstance(given, list) and all(_number(token) for token in given):
        tokens = given
        beyond = next((token for token in tokens if not 0 <= token < service.settings.vocab), None)
        if beyond is not None:
            raise invalid(f"{param}: {str(beyond)[:40]} is not a token id of this model (0 to {service.settings.vocab - 1})", param)
    else:
        raise invalid(f"{param} must be a text or a list of token ids", param)
    if not tokens:
        raise invalid(f"{param} is empty", param)
    return tokens


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _choice(service: Service, body: CompletionBody, index: int, request: Request, sequel: Sequel) -> dict[str, Any]:
    """The whole answer to one prompt."""
    prompt, scores = "", list[TokenScore | None](sequel.scores)
    if body.echo:
        prompt, scores = service.tokenizer.decode(request.tokens), [None, *sequel.prompt_scores, *scores]
    logprobs = None if body.logprobs is None else _logprobs(service, request, scores)
    return {"index": index, "text": prompt + sequel.text, "logprobs": logprobs, "finish_reason": sequel.finish}


async def _chunks(
    service: Service, body: CompletionBody, requests: Sequence[Request], answer: Answer
) -> AsyncIterator[dict[str, Any] | None]:  # fmt: skip
    """One chunk for each piece of text; an echoed prompt comes with the first piece of its answer."""
    options = body.stream_options
    always, last = bool(options and options.continuous_usage_stats), bool(options and options.include_usage)
    head, place = service.head("text_completion", _id(requests)), {request.id: i for i, request in enumerate(requests)}
    lengths, seen = [0] * len(requests), set[str]()
    async for output in answer.pieces(service.settings.keep_alive):
        if output is None:
            yield None
            continue
        piece = Sequel()
        piece.add(output)
        i, echo = place[output.id], bool(body.echo) and output.id not in seen
        seen.add(output.id)
        choice = _choice(service, body.model_copy(update={"echo": echo}), i, requests[i], piece)
        if choice["logprobs"]:
            choice["logprobs"]["text_offset"] = [lengths[i] + offset for offset in choice["logprobs"]["text_offset"]]
            lengths[i] += sum(map(len, choice["logprobs"]["tokens"]))
        counts = _usage(body, requests, list(answer.sequels.values())) if always else None
        if choice["text"] or output.scores or output.finish:
            yield {**head, "choices": [choice], **({"usage": counts} if always or last else {})}
    if last:
        yield {**head, "choices": [], "usage": _usage(body, requests, list(answer.sequels.values()))}


def _logprobs(service: Service, request: Request, scores: Sequence[TokenScore | None]) -> dict[str, Any]:
    """Parallel lists; the first token of a prompt has no probability."""
    texts = [service.piece(request.tokens[0] if score is None else score.token) for score in scores]
    offsets = [0, *accumulate(map(len, texts))][: len(texts)]
    return {
        "tokens": texts,
        "token_logprobs": [score and finite(score.logprob) for score in scores],
        "top_logprobs": [score and _best(service, score) for score in scores],
        "text_offset": offsets,
    }


def _best(service: Service, score: TokenScore) -> dict[str, float]:
    """The alternatives, and the token itself if it is not among them."""
    found = {service.piece(token): finite(logprob) for token, logprob in reversed(score.top)}
    return {**found, service.piece(score.token): finite(score.logprob)}


def _usage(body: CompletionBody, requests: Sequence[Request], sequels: Sequence[Sequel]) -> dict[str, int]:
    prompts = sum(len(request.tokens) for request in requests[:: body.n or 1])
    return usage(prompts, sum(len(sequel.tokens) for sequel in sequels))


def _id(requests: Sequence[Request]) -> str:
    return "cmpl-" + requests[0].id.partition("-")[0]
