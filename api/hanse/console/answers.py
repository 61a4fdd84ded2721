"""Answers over HTTP: JSON, compressed where that pays, and errors as one line with a status of their own."""

import gzip
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from hanse.apiserver.failures import told
from hanse.console.limits import RETRY_S
from hanse.model.errors import (
    AlreadyExists,
    FailedPrecondition,
    HanseError,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from hanse.wire.json import error_to_json

UNAUTHENTICATED: Final = "UNAUTHENTICATED"
GZIP_FROM_BYTES: Final = 1_024
GZIP_LEVEL: Final = 5

_STATUS: Final = {
    InvalidArgument: 400,
    NotFound: 404,
    AlreadyExists: 409,
    PermissionDenied: 403,
    ResourceExhausted: 429,
    FailedPrecondition: 412,
    OutOfRange: 410,
    Unavailable: 503,
}


def json_answer(request: Request, value: object, *, status: int = 200) -> Response:
    """A value as JSON that nobody keeps."""
    body = orjson.dumps(value)
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if len(body) >= GZIP_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, GZIP_LEVEL)
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, media_type="application/json")


def status_of(error: HanseError) -> int:
    """The HTTP status of an error; 401 asks for a token."""
    if error.reason == UNAUTHENTICATED:
        return 401
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def refusal(error: Exception) -> Response:
    """What is told of an error."""
    refused = told(error)
    status = status_of(refused)
    headers = {"Cache-Control": "no-store"}
    if status in (429, 503):
        headers["Retry-After"] = f"{RETRY_S:.0f}"
    return Response(orjson.dumps(error_to_json(refused)), status, headers, media_type="application/json")
