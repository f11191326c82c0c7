"""What the service says about itself: models, health, metrics, and its tokenizer."""

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from day0.serve import messages
from day0.serve.errors import ApiError, invalid, json_response
from day0.serve.schemas import DetokenizeBody, TokenizeBody
from day0.serve.service import Service
from day0.spec.errors import Day0Error


def router(service: Service) -> APIRouter:
    """The routes on one service."""
    routes = APIRouter()
    settings, runner, tokenizer = service.settings, service.runner, service.tokenizer

    @routes.get("/v1/models")
    async def models() -> Response:
        """The one model."""
        return json_response({"object": "list", "data": [_model(service)]})

    @routes.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        """The model, if it is the one."""
        if name != settings.model:
            raise ApiError(404, f"there is no model {name[:100]!r} here", param="model", code="model_not_found")
        return json_response(_model(service))

    @routes.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> Response:
        """200 when requests are answered; 503 with the reason when not."""
        return json_response(_health(service), 200 if runner.state == "ready" else 503)

    @routes.api_route("/metrics", methods=["GET", "HEAD"])
    async def metrics() -> Response:
        """Prometheus' text format."""
        runner.snapshot()
        return Response(runner.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @routes.post("/tokenize")
    async def tokenize(body: TokenizeBody) -> Response:
        """Token ids of a text or a conversation."""
        if (body.prompt is None) == (body.messages is None):
            raise invalid("give either prompt or messages", "prompt")
        if body.prompt is not None:
            tokens = await run_in_threadpool(tokenizer.encode, body.prompt, body.add_special_tokens)
        else:
            names = {"add_generation_prompt": body.add_generation_prompt}
            tokens = await run_in_threadpool(messages.prompt, tokenizer, body.messages or [], names)
        return json_response({"tokens": tokens, "count": len(tokens), "max_model_len": settings.context})

    @routes.post("/detokenize")
    async def detokenize(body: DetokenizeBody) -> Response:
        """Text of token ids."""
        if any(token >= settings.vocab for token in body.tokens):
            raise invalid(f"token ids of this model are below {settings.vocab}", "tokens")
        return json_response({"prompt": await run_in_threadpool(tokenizer.decode, body.tokens, True)})

    return routes


def _model(service: Service) -> dict[str, Any]:
    settings = service.settings
    return {
        "id": settings.model,
        "object": "model",
        "created": settings.created,
        "owned_by": "day0",
        "root": settings.model,
        "parent": None,
        "max_model_len": settings.context,
    }


def _health(service: Service) -> dict[str, Any]:
    runner = service.runner
    told: dict[str, Any] = {"status": "ok" if runner.state == "ready" else "unavailable", "state": runner.state}
    if runner.state == "starting":
        told |= {"phase": runner.phase, "progress": round(runner.progress, 3)}
    if runner.failure is not None:
        told["reason"] = runner.failure.problem if isinstance(runner.failure, Day0Error) else type(runner.failure).__name__
    return told
