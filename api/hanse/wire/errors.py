"""Errors on the wire: which code of `google.rpc.Code` each class of the model's tree has, and the item errors.

Codes are plain numbers here, because this package knows no transport; `grpc.StatusCode` and the numbers of
`google.rpc.Code` are the same list.
"""

from types import MappingProxyType
from typing import Final

from hanse.api.v1 import error_pb2 as pb
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

DOMAIN: Final = "hanse"
"""`google.rpc.ErrorInfo.domain` of every error."""

UNAUTHENTICATED: Final = 16
INTERNAL: Final = 13

_CODES: Final = MappingProxyType(
    {
        InvalidArgument: 3,
        NotFound: 5,
        AlreadyExists: 6,
        PermissionDenied: 7,
        ResourceExhausted: 8,
        FailedPrecondition: 9,
        OutOfRange: 11,
        Unavailable: 14,
    }
)
_CLASSES: Final = MappingProxyType({code: kind for kind, code in _CODES.items()})
_DEADLINE_EXCEEDED: Final = 4
_CANCELLED: Final = 1


def code_of(error: HanseError) -> int:
    """The code of an error's class; INTERNAL for the root itself."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), INTERNAL)


def error_of(code: int, message: str, *, reason: str = "", path: str = "", line: int = 0) -> HanseError:
    """The error that a code stands for. Codes that only a transport gives (deadline, cancelled) are Unavailable,
    and so say that the call may be repeated."""
    if code in (_DEADLINE_EXCEEDED, _CANCELLED):
        return Unavailable(message, reason=reason or "DEADLINE_EXCEEDED", path=path, line=line)
    if code == UNAUTHENTICATED:
        return PermissionDenied(message, reason=reason or "UNAUTHENTICATED", path=path, line=line)
    kind = _CLASSES.get(code, HanseError)
    return kind(message, reason=reason, path=path, line=line)


def error_to_wire(error: HanseError) -> pb.Error:
    return pb.Error(reason=error.reason, path=error.path, line=error.line, message=error.message, code=code_of(error))


def error_from_wire(message: pb.Error) -> HanseError:
    return error_of(message.code, message.message, reason=message.reason, path=message.path, line=message.line)
