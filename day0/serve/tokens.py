"""POST /tokenize and /detokenize: the release's tokenizer, as clients that count tokens ask for it."""

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from day0.serve import messages
from day0.serve.errors import invalid, json_response
from day0.serve.schemas import DetokenizeBody, TokenizeBody
from day0.serve.service import Service


def router(service: Service) -> APIRouter:
    """The routes on one service."""
    routes = APIRouter()
    settings, tokenizer = service.settings, service.tokenizer

    @routes.post("/tokenize")
    async def tokenize(body: TokenizeBody) -> Response:
        """Token ids of a text or a conversation."""
        if (body.prompt is None) == (body.messages is None):
            raise invalid("give either prompt or messages", "prompt")
        if body.prompt is not None:
            tokens = await run_in_threadpool(tokenizer.encode, body.prompt, body.add_special_tokens)
        else:
            names = {"add_generation_prompt": body.add_generation_prompt}
            tokens, _ = await run_in_threadpool(messages.prompt, tokenizer, body.messages or [], names, service.eye)
        return json_response({"tokens": tokens, "count": len(tokens), "max_model_len": settings.context})

    @routes.post("/detokenize")
    async def detokenize(body: DetokenizeBody) -> Response:
        """Text of token ids."""
        if any(token >= settings.vocab for token in body.tokens):
            raise invalid(f"token ids of this model are below {settings.vocab}", "tokens")
        return json_response({"prompt": await run_in_threadpool(tokenizer.decode, body.tokens, True)})

    return routes
