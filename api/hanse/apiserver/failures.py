"""What a user is told when something beneath a service fails: one line, no internal name, and whether to repeat."""

import msgspec

from hanse.model.errors import HanseError, OutOfRange, ResourceExhausted, Unavailable
from hanse.store.contract import Compacted, LeaseGone, StoreFull, StoreUnavailable

INTERNAL_MESSAGE = "the server made a mistake with this request; its log says more"


def told(error: Exception) -> HanseError:
    """The error of `hanse.model.errors` that an exception means; the root class for a bug."""
    match error:
        case HanseError():
            return error
        case StoreFull():
            return ResourceExhausted(f"the store is full: {error}", reason=error.reason)
        case StoreUnavailable():
            return Unavailable(f"the store cannot be used now: {error}; try again", reason=error.reason)
        case Compacted():
            return OutOfRange("that revision is no longer kept: list again and go on from there", reason=error.reason)
        case LeaseGone():
            return Unavailable("a lease of the server has ended; try again", reason=error.reason)
        case TimeoutError():
            return Unavailable(
                "the call did not end in time; repeat it with the same request id", reason="DEADLINE_EXCEEDED"
            )
        case msgspec.DecodeError():
            return HanseError(
                "a stored value cannot be read; was it written by a newer version?", reason="STORED_VALUE"
            )
        case _:
            return HanseError(INTERNAL_MESSAGE, reason="INTERNAL")
