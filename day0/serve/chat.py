"""POST /v1/chat/completions."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from fastapi import Request as Http
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from day0.serve import messages
from day0.serve.answer import Answer, Sequel
from day0.serve.connection import EventStream, while_connected
from day0.serve.errors import json_response
from day0.serve.schemas import ChatBody
from day0.serve.service import Service, finite, usage
from day0.spec.request import Request, TokenScore


def router(service: Service) -> APIRouter:
    """The route on one service."""
    routes = APIRouter()

    @routes.post("/v1/chat/completions")
    async def chat(body: ChatBody, http: Http) -> Response:
        """Continue a conversation."""
        service.require(body)
        requests = await run_in_threadpool(_requests, service, body)
        answer = service.runner.submit(requests)
        try:
            if body.stream:
                seconds = service.settings.keep_alive
                await while_connected(http, answer.begin(seconds))
                return EventStream(answer, _chunks(service, body, requests, answer))
            sequels = await while_connected(http, answer.whole())
        except BaseException:
            answer.close()
            raise
        return json_response(_completion(service, requests, sequels))

    return routes


def _requests(service: Service, body: ChatBody) -> list[Request]:
    names = {"add_generation_prompt": body.add_generation_prompt, **(body.chat_template_kwargs or {})}
    if body.reasoning_effort is not None:
        names.setdefault("reasoning_effort", body.reasoning_effort)
    tokens, images = messages.prompt(service.tokenizer, body.messages, names, service.eye)
    scores = (body.top_logprobs or 0) if body.logprobs else None
    return [replace(one, images=images) for one in service.requests(body, [tokens], "messages", logprobs=scores)]


def _completion(service: Service, requests: Sequence[Request], sequels: Sequence[Sequel]) -> dict[str, Any]:
    """The whole answer."""
    choices = [
        {
            "index": i,
            "message": {"role": "assistant", "content": sequel.text, "refusal": None},
            "logprobs": _logprobs(service, requests[0], sequel.scores),
            "finish_reason": sequel.finish,
        }
        for i, sequel in enumerate(sequels)
    ]
    counts = usage(len(requests[0].tokens), sum(len(sequel.tokens) for sequel in sequels))
    return {**service.head("chat.completion", _id(requests)), "choices": choices, "usage": counts}


async def _chunks(service: Service, body: ChatBody, requests: Sequence[Request], answer: Answer) -> AsyncIterator[dict[str, Any] | None]:
    """One chunk for each piece of text, the first with the role, the last of each choice with the reason why it ended."""
    options = body.stream_options
    always, last = bool(options and options.continuous_usage_stats), bool(options and options.include_usage)
    head = service.head("chat.completion.chunk", _id(requests))
    place = {request.id: i for i, request in enumerate(requests)}
    prompt = len(requests[0].tokens)

    def chunk(index: int, delta: dict[str, Any], logprobs: Any = None, finish: str | None = None) -> dict[str, Any]:
        made = {**head, "choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}]}
        if always or last:
            made["usage"] = usage(prompt, sum(len(s.tokens) for s in answer.sequels.values())) if always else None
        return made

    for i in range(len(requests)):
        yield chunk(i, {"role": "assistant", "content": ""})
    async for output in answer.pieces(service.settings.keep_alive):
        if output is None:
            yield None
        elif output.text or output.scores or output.finish:
            delta = {"content": output.text} if output.text or not output.finish else {}
            yield chunk(place[output.id], delta, _logprobs(service, requests[0], output.scores), output.finish)
    if last:
        yield {**head, "choices": [], "usage": usage(prompt, sum(len(s.tokens) for s in answer.sequels.values()))}


def _logprobs(service: Service, request: Request, scores: Sequence[TokenScore]) -> dict[str, Any] | None:
    """What was asked about each token; null when nothing was."""
    if request.sampling.logprobs is None:
        return None
    content = [
        {**_token(service, score.token, score.logprob), "top_logprobs": [_token(service, *one) for one in score.top]} for score in scores
    ]
    return {"content": content, "refusal": None}


def _token(service: Service, token: int, logprob: float) -> dict[str, Any]:
    return {"token": service.piece(token), "logprob": finite(logprob), "bytes": list(service.tokenizer.piece(token))}


def _id(requests: Sequence[Request]) -> str:
    return "chatcmpl-" + requests[0].id.partition("-")[0]
