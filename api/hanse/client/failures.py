"""What went wrong, in the product's own words: every failed call becomes one error of `hanse.model.errors`.

A server's refusal carries a `google.rpc.Status` with an ErrorInfo, and is passed on as it is. Everything else is the
transport's, and means that no Hanse server answered; that is one error, `Unavailable` with reason SERVER_UNREACHABLE,
whose message says what was seen and what to do.
"""

from typing import Final

import grpc
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from hanse.model.errors import HanseError, Unavailable
from hanse.wire.errors import DOMAIN, error_of

UNREACHABLE: Final = "SERVER_UNREACHABLE"
STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"

_SEEN: Final = (
    ("connection refused", "connection refused"),
    ("dns resolution failed", "no such host"),
    ("name resolution", "no such host"),
    ("domain name not found", "no such host"),
    ("network is unreachable", "network is unreachable"),
    ("no route to host", "no route to host"),
    ("connection reset", "the connection broke"),
    ("socket closed", "the connection broke"),
    ("goaway", "the connection broke"),
    ("http1", "something else listens there"),
    ("http/1", "something else listens there"),
    ("parsing http", "something else listens there"),
    ("timed out", "no answer"),
    ("timeout", "no answer"),
)


def unreachable(server: str, seen: str) -> Unavailable:
    """No Hanse server answered at that address."""
    return Unavailable(
        f"cannot reach a Hanse server at {server} ({seen}). Start one with `hanse up`, or set HANSE_SERVER.",
        reason=UNREACHABLE,
    )


def error_from_call(call: grpc.aio.AioRpcError, *, server: str, connected: bool) -> HanseError:
    """The error that a failed call means; `connected`: whether the channel had a connection then."""
    told = _told(call)
    if told is not None:
        return told
    code, details = call.code(), call.details() or ""
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            return unreachable(server, _seen(details))
        case grpc.StatusCode.DEADLINE_EXCEEDED if not connected:
            return unreachable(server, "no answer")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(
                f"the server at {server} did not answer in time; repeat the call with the same request id",
                reason="DEADLINE_EXCEEDED",
            )
        case grpc.StatusCode.UNIMPLEMENTED:
            return unreachable(server, "what answers there does not know this call; is it another version?")
        case grpc.StatusCode.UNKNOWN | grpc.StatusCode.INTERNAL if not connected:
            return unreachable(server, _seen(details))
        case _:
            return error_of(code.value[0], details or f"the call failed with {code.name}", reason=code.name)


def _seen(details: str) -> str:
    text = details.lower()
    return next((words for part, words in _SEEN if part in text), "the connection failed")


def _told(call: grpc.aio.AioRpcError) -> HanseError | None:
    """The server's own words, None if there are none."""
    for key, value in call.trailing_metadata() or ():
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            return error_from_status(status_pb2.Status.FromString(value))
    return None


def error_from_status(status: status_pb2.Status) -> HanseError | None:
    """The error in a status that carries our ErrorInfo, None if it does not."""
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            line = info.metadata.get("line", "0")
            return error_of(
                status.code,
                status.message,
                reason=info.reason,
                path=info.metadata.get("path", ""),
                line=int(line) if line.isdecimal() else 0,
            )
    return None
