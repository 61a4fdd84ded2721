"""One exception tree for what is the caller's fault, the world's fault, or a bug; no transport types in it.

    HanseError                      reason, path, line, message: what every surface shows, on one line
    ├── InvalidArgument             the input is wrong: mend it (field path and, for files, line)
    ├── NotFound                    no such job, queue, pool
    ├── AlreadyExists               same name, or same request id with another body
    ├── FailedPrecondition          right input, wrong moment: the queue is not empty, the job is terminal
    ├── OutOfRange                  a page token or a watch revision that is no longer kept: list again
    ├── ResourceExhausted           a named limit is reached: wait, or ask for less
    ├── PermissionDenied
    └── Unavailable                 nothing was done; try again

An expected outcome ("does not fit", "conflict") is a value, never one of these. Each class maps to exactly one
gRPC code (`hanse.apiserver`), and `reason` is the machine-readable half.
"""

from typing import ClassVar


class HanseError(Exception):
    """Base of all errors that a user may see.

    Attributes:
        reason: UPPER_SNAKE code, stable, for machines.
        path: field path (`spec.pod_sets[0].count`), empty if no field is to blame.
        line: 1-based line in the submitted file, 0 if unknown.
        message: one line: what is wrong and what to do.
    """

    default_reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, reason: str = "", path: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())
        self.reason = reason or self.default_reason
        self.path = path
        self.line = line

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}"


class InvalidArgument(HanseError):
    default_reason = "INVALID_ARGUMENT"


class NotFound(HanseError):
    default_reason = "NOT_FOUND"


class AlreadyExists(HanseError):
    default_reason = "ALREADY_EXISTS"


class FailedPrecondition(HanseError):
    default_reason = "FAILED_PRECONDITION"


class OutOfRange(HanseError):
    default_reason = "OUT_OF_RANGE"


class ResourceExhausted(HanseError):
    default_reason = "RESOURCE_EXHAUSTED"


class PermissionDenied(HanseError):
    default_reason = "PERMISSION_DENIED"


class Unavailable(HanseError):
    default_reason = "UNAVAILABLE"
