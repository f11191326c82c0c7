"""What the service says about itself: models, health and metrics."""

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from day0.serve.errors import ApiError, json_response
from day0.serve.service import Service
from day0.spec.errors import Day0Error


def router(service: Service) -> APIRouter:
    """The routes on one service."""
    routes = APIRouter()
    settings, runner = service.settings, service.runner

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

    @routes.get("/health")
    @routes.head("/health", include_in_schema=False)
    async def health() -> Response:
        """200 when requests are answered; 503 with the reason when not."""
        return json_response(_health(service), 200 if runner.state == "ready" else 503)

    @routes.get("/metrics")
    @routes.head("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        """Prometheus' text format."""
        runner.snapshot()
        return Response(runner.metrics.text(), media_type=CONTENT_TYPE_LATEST)

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
