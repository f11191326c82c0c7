"""Errors in the shape that OpenAI's clients read, for everything that can go wrong over HTTP."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from day0.spec.errors import Day0Error

LONGEST = 300  # characters of a message that echoes what a client sent
KINDS = {401: "authentication_error", 404: "not_found_error", 500: "server_error", 503: "service_unavailable_error"}
log = logging.getLogger("day0.serve")


class ApiError(Exception):
    """An answer that is not what was asked for."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.headers = status, message, param, code, dict(headers or {})

    def body(self) -> dict[str, Any]:
        """`{"error": {message, type, param, code}}`."""
        kind = KINDS.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """The body as an HTTP response."""
        return json_response(self.body(), self.status, self.headers)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request that cannot be served as it is."""
    return ApiError(400, message, param=param, code=code)


def unavailable(message: str, code: str, seconds: int = 1) -> ApiError:
    """Not now; the client may come back after some seconds."""
    return ApiError(503, message, code=code, headers={"Retry-After": str(seconds)})


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Strict JSON: no NaN, and no half surrogate pairs from what a client sent."""
    return Response(json_bytes(content), status, headers, "application/json")


def json_bytes(content: Any) -> bytes:
    """JSON as it goes out."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def install(app: FastAPI) -> None:
    """Give every way of failing the same shape."""

    @app.exception_handler(ApiError)
    async def api_error(_request: Request, error: ApiError) -> Response:
        return error.response()

    @app.exception_handler(Day0Error)
    async def refused(_request: Request, error: Day0Error) -> Response:
        return invalid(error.problem + (f" ({error.hint})" if error.hint else "")).response()

    @app.exception_handler(RequestValidationError)
    async def malformed(_request: Request, error: RequestValidationError) -> Response:
        return from_validation(error.errors()).response()

    @app.exception_handler(HTTPException)
    async def http_error(_request: Request, error: HTTPException) -> Response:
        return ApiError(error.status_code, str(error.detail)[:LONGEST], headers=error.headers).response()

    @app.exception_handler(Exception)
    async def fault(_request: Request, _error: Exception) -> Response:
        return ApiError(500, "the server made a mistake; its log says more").response()


def from_validation(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """What pydantic said first, with the path of the field: `messages[0].role`."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return invalid(f"the body is not valid JSON: {first.get('ctx', {}).get('error', '')}"[:LONGEST])
    param = field(first["loc"])
    if param is None:
        return invalid("the body is not a JSON object; send one with `Content-Type: application/json`")
    return invalid(f"{param}: {first['msg']}"[:LONGEST], param)


def field(place: Sequence[Any]) -> str | None:
    """Path of a field without the names that a validator gives to the alternatives of a type."""
    path = ""
    for part in place[1:]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part not in ("str", "int", "float", "bool"):
            path += f".{part}" if path else part
    return path[:LONGEST] or None
