"""The application: routes, errors and the gate around one service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

import day0
from day0.engine.eye import Eye
from day0.engine.text import Tokenizer
from day0.serve import about, chat, completions, errors, tokens
from day0.serve.gate import Gate
from day0.serve.runner import Runner
from day0.serve.service import Service
from day0.serve.settings import Settings


def create_app(runner: Runner, tokenizer: Tokenizer, settings: Settings, eye: Eye | None = None) -> ASGIApp:
    """An ASGI application that starts the runner with its lifespan and closes it with it."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        runner.open(asyncio.get_running_loop())
        yield
        await asyncio.to_thread(runner.close)

    app = FastAPI(title="day0", version=day0.__version__, lifespan=lifespan)
    errors.install(app)
    service = Service(runner=runner, tokenizer=tokenizer, settings=settings, eye=eye)
    for part in (about, chat, completions, tokens):
        app.include_router(part.router(service))
    return Gate(app, keys=settings.api_keys, max_body=settings.max_body)
